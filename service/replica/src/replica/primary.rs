//! The primary: puts operations in an order, has its backups confirm each, and answers then.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Effect, Fault, Replica, Role};
use crate::action::{Action, Answer, Answered, Operate};
use crate::append::{Append, Change, Entry, Invitation, Received};
use crate::placement::{Alter, Member, Placement};
use crate::recent::Known;
use crate::{APPEND_BYTES_MAX, LOG_BYTES_MAX, LOG_ENTRIES_MAX};

/// Messages to one backup that are not answered.
const ON_WAY_MAX: u32 = 4;
/// Bytes that are copied to a new backup by one entry.
const COPIED_BYTES: u64 = 256 << 10;

/// What a primary keeps.
pub(crate) struct Primary {
    pub(crate) term: u64,
    start: u64,
    pub(crate) followers: BTreeMap<Member, Follower>,
    /// Answers that wait for backups, by entry.
    waiting: BTreeMap<(u64, u64), (u64, Answered)>,
    /// How many waited, and how many followers there were.
    waited: u64,
    met: u64,
    pub(crate) proposal: Option<Proposal>,
    /// Whoever made the region waits.
    pub(crate) maker: Option<u64>,
    /// Whoever frees it waits.
    pub(crate) freer: Option<u64>,
    /// Who alters who may use it, in the order in which that was asked.
    pub(crate) altering: VecDeque<(u64, Alter)>,
}

/// What was proposed and is not decided: it stays the same until then.
pub(crate) struct Proposal {
    /// None: the record is removed.
    pub(crate) next: Option<Placement>,
    /// The registry has it.
    pub(crate) is_asked: bool,
}

/// What a primary knows of one that follows it.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    /// The term, and which follower it is in that: an answer to an earlier one says nothing of this.
    tag: (u64, u64),
    pub(crate) acked: u64,
    sent: u64,
    on_way: u32,
    /// The epoch of what was sent last.
    told: u64,
    /// Which replica of that node it is, once it has answered.
    instance: Option<u64>,
    /// It knows that it is counted on.
    pub(crate) is_confirmed: bool,
    /// It stands in the record.
    pub(crate) is_backup: bool,
    /// Nothing is answered before it has it.
    pub(crate) is_required: bool,
    pub(crate) is_lost: bool,
    invitation: Option<Invitation>,
    /// The next byte to be copied to it, and the last entry that does so.
    copied: (u64, u64),
}

impl Follower {
    fn new(tag: (u64, u64), at: u64, is_backup: bool, invitation: Option<Invitation>) -> Follower {
        Follower {
            tag,
            acked: at,
            sent: at,
            on_way: 0,
            told: 0,
            instance: None,
            is_confirmed: false,
            is_backup,
            is_required: is_backup,
            is_lost: false,
            invitation,
            copied: (0, at),
        }
    }
}

impl Follower {
    /// The replica has said which it is.
    fn met(&mut self, instance: u64, is_confirmed: bool) {
        if self.instance.is_none() {
            // It hears so with the next message.
            (self.instance, self.told) = (Some(instance), 0);
        }
        if let Some(invitation) = &mut self.invitation {
            invitation.instance = Some(instance);
        }
        self.is_confirmed |= is_confirmed;
    }
}

impl Primary {
    pub(crate) fn new(placement: &Placement, start: u64, maker: Option<u64>) -> Primary {
        let invitation =
            maker.map(|_| Invitation { epoch: placement.epoch, base: 0, instance: None });
        let follower = |(nth, member): (usize, &Member)| {
            let tag = (placement.epoch, nth as u64);
            (*member, Follower::new(tag, start, true, invitation))
        };
        Primary {
            term: placement.epoch,
            start,
            followers: placement.backups.iter().enumerate().map(follower).collect(),
            waiting: BTreeMap::new(),
            waited: 0,
            met: placement.backups.len() as u64,
            proposal: None,
            maker,
            freer: None,
            altering: VecDeque::new(),
        }
    }

    /// The last entry that all have on whom an answer depends.
    fn confirmed(&self, end: u64) -> u64 {
        let required = self.followers.values().filter(|it| it.is_required);
        required.map(|it| it.acked).min().unwrap_or(end)
    }

    /// Whether some node is on its way to be a backup.
    pub(crate) fn is_copying(&self) -> bool {
        self.followers.values().any(|it| !it.is_backup || !it.is_confirmed)
    }

    /// The placement is another one, decided.
    pub(crate) fn adopt(&mut self, placement: &Placement) {
        self.followers.retain(|member, it| placement.backups.contains(member) || !it.is_backup);
        for (member, follower) in &mut self.followers {
            follower.is_backup = placement.backups.contains(member);
            follower.is_required = follower.is_backup;
            if follower.is_backup {
                follower.invitation = None;
            }
        }
    }

    /// It is the primary no more.
    pub(crate) fn give_up(self, effects: &mut Vec<Effect>) {
        let answer = Answer::NotPrimary { may_be_done: true };
        let all = self.waiting.into_values();
        effects.extend(all.map(|(token, _)| Effect::Answer { token, answer: answer.clone() }));
        effects.extend(self.maker.map(|token| Effect::Made(token, Err(Fault::NotPrimary))));
        effects.extend(self.freer.map(|token| Effect::Freed(token, Err(Fault::NotPrimary))));
        let altering = self.altering.into_iter();
        effects.extend(altering.map(|(token, _)| Effect::Altered(token, Err(Fault::NotPrimary))));
    }
}

impl Replica {
    /// A client asks for an operation; the effect `Answer` with this token follows once.
    pub fn operate(&mut self, token: u64, asked: Operate, effects: &mut Vec<Effect>) {
        if let Some(answer) = self.begin(token, &asked) {
            effects.push(Effect::Answer { token, answer });
        }
        if asked.epoch > self.placement.epoch && self.is_primary() {
            self.look(effects);
        }
        self.go_on(effects);
    }

    /// Begins an operation. What is not begun is answered at once.
    fn begin(&mut self, token: u64, asked: &Operate) -> Option<Answer> {
        let Role::Primary(primary) = &mut self.role else {
            return Some(Answer::NotPrimary { may_be_done: false });
        };
        if primary.maker.is_some() || asked.epoch > self.placement.epoch {
            return Some(Answer::NotPrimary { may_be_done: false });
        }
        if !asked.action.fits(self.placement.bytes) {
            return Some(Answer::Range);
        }
        let is_read = matches!(asked.action, Action::Read { .. });
        let known = match is_read {
            true => Known::New,
            false => self.log.recent.look(asked.id, asked.floor),
        };
        let (entry, answered) = match known {
            Known::Forgotten => return Some(Answer::TooOld { floor: self.committed }),
            Known::Done(entry, word) => (entry, Answered { entry, word, read: Vec::new() }),
            Known::New => {
                let is_full = self.log.entry_bytes() >= LOG_BYTES_MAX
                    || self.log.end() - self.log.base() >= LOG_ENTRIES_MAX as u64;
                if is_full {
                    // A node that is to become a backup and is slow holds nobody up.
                    primary.followers.retain(|_, it| it.is_required);
                    return Some(Answer::Busy);
                }
                let (change, word, read) = carry_out(&self.log.data, &asked.action);
                let id = (!is_read).then_some(asked.id);
                let entry = self.log.push(Entry { term: primary.term, id, word, change });
                self.log.apply_to(entry);
                (entry, Answered { entry, word, read })
            }
        };
        primary.waited += 1;
        primary.waiting.insert((entry, primary.waited), (token, answered));
        None
    }

    /// A backup has answered what was sent with this tag.
    pub fn received(
        &mut self,
        from: Member,
        tag: (u64, u64),
        received: Received,
        effects: &mut Vec<Effect>,
    ) {
        let end = self.log.end();
        let Role::Primary(primary) = &mut self.role else { return };
        let found = primary.followers.get_mut(&from).filter(|it| it.tag == tag);
        let Some(follower) = found else { return };
        follower.on_way = follower.on_way.saturating_sub(1);
        match received {
            Received::Have { instance, .. }
                if follower.instance.is_some_and(|it| it != instance) =>
            {
                self.lose_follower(from);
            }
            Received::Have { entry, instance, is_confirmed } => {
                follower.met(instance, is_confirmed);
                follower.acked = follower.acked.max(entry.min(end));
                follower.sent = follower.sent.max(follower.acked);
            }
            Received::Stale => self.look(effects),
            Received::Unknown => self.lose_follower(from),
            Received::Full => self.refused_by(from, effects),
        }
        self.go_on(effects);
    }

    /// Something that was sent has no answer.
    pub fn not_received(&mut self, from: Member, tag: (u64, u64)) {
        let Role::Primary(primary) = &mut self.role else { return };
        if let Some(it) = primary.followers.get_mut(&from).filter(|it| it.tag == tag) {
            it.on_way = it.on_way.saturating_sub(1);
            (it.sent, it.told) = (it.acked, 0);
        }
    }

    /// What was not confirmed for a whole tick is sent once more.
    pub(crate) fn send_again(&mut self) {
        let Role::Primary(primary) = &mut self.role else { return };
        for follower in primary.followers.values_mut().filter(|it| it.on_way == 0) {
            follower.sent = follower.acked;
        }
    }

    pub(crate) fn lose_follower(&mut self, member: Member) {
        let Role::Primary(primary) = &mut self.role else { return };
        match primary.followers.get_mut(&member) {
            Some(follower) if follower.is_required => follower.is_lost = true,
            Some(_) => drop(primary.followers.remove(&member)),
            None => {}
        }
    }

    /// Invites a node where there are fewer replicas than there are to be.
    pub fn invite(&mut self, member: Member, effects: &mut Vec<Effect>) {
        let (end, epoch, wanted) = (self.log.end(), self.placement.epoch, self.placement.wanted);
        let me = self.me;
        let Role::Primary(primary) = &mut self.role else { return };
        let is_settled = primary.maker.is_none() && primary.freer.is_none();
        let has_all = primary.followers.len() as u32 + 1 >= wanted;
        if !is_settled || has_all || member == me || primary.followers.contains_key(&member) {
            return;
        }
        let invitation = Some(Invitation { epoch, base: end, instance: None });
        let tag = (primary.term, primary.met);
        primary.met += 1;
        primary.followers.insert(member, Follower::new(tag, end, false, invitation));
        self.go_on(effects);
    }

    /// Answers what all have, sends what they lack, and decides who they are.
    pub(crate) fn go_on(&mut self, effects: &mut Vec<Effect>) {
        self.copy_on();
        let end = self.log.end();
        let Role::Primary(primary) = &mut self.role else { return };
        let confirmed = primary.confirmed(end);
        self.committed = self.committed.max(confirmed);
        while let Some(first) = primary.waiting.first_entry() {
            if first.key().0 > self.committed {
                break;
            }
            let (token, answered) = first.remove();
            effects.push(Effect::Answer { token, answer: Answer::Done(answered) });
        }
        let all = primary.followers.values().map(|it| it.acked).min().unwrap_or(end);
        self.log.forget_to(all.min(self.committed));
        self.send(effects);
        self.decide(effects);
    }

    fn send(&mut self, effects: &mut Vec<Effect>) {
        let Role::Primary(primary) = &mut self.role else { return };
        for (member, follower) in &mut primary.followers {
            let end = self.log.end();
            let epoch = self.placement.epoch;
            while follower.on_way < ON_WAY_MAX && (follower.sent < end || follower.told < epoch) {
                follower.told = epoch;
                let (first, mut bytes, mut entries) = (follower.sent + 1, 0, Vec::new());
                while let Some(entry) = self.log.get(first + entries.len() as u64) {
                    bytes += entry.bytes();
                    if bytes > APPEND_BYTES_MAX && !entries.is_empty() {
                        break;
                    }
                    entries.push(entry.clone());
                }
                follower.sent += entries.len() as u64;
                follower.on_way += 1;
                let append = Append {
                    placement: self.placement.clone(),
                    term: primary.term,
                    start: primary.start,
                    committed: self.committed,
                    invitation: follower.invitation,
                    first,
                    entries,
                };
                let (to, tag) = (*member, follower.tag);
                effects.push(Effect::Append { to, tag, append: Box::new(append) });
            }
        }
    }

    /// Copies more of the region to a node that is to become a backup, as entries that change nothing.
    fn copy_on(&mut self) {
        let size = self.placement.bytes;
        let Role::Primary(primary) = &mut self.role else { return };
        let term = primary.term;
        for follower in primary.followers.values_mut().filter(|it| !it.is_backup && it.is_confirmed)
        {
            while follower.copied.0 < size && self.log.entry_bytes() < LOG_BYTES_MAX / 2 {
                let offset = follower.copied.0;
                let bytes = COPIED_BYTES.min(size - offset);
                let found = &self.log.data[offset as usize..(offset + bytes) as usize];
                let change = match found.iter().all(|byte| *byte == 0) {
                    true => Change::Set { offset, bytes, value: 0 },
                    false => Change::Store { offset, bytes: Arc::from(found) },
                };
                let entry = self.log.push(Entry { term, id: None, word: 0, change });
                self.log.apply_to(entry);
                follower.copied = (offset + bytes, entry);
            }
        }
    }

    /// Nodes that have all of the region, and are no backups yet.
    pub(crate) fn copied(&self) -> Option<Member> {
        let Role::Primary(primary) = &self.role else { return None };
        let is_ready = |it: &Follower| {
            // What is not on all backups may be cut off by the next primary.
            let has_all = it.copied.0 >= self.placement.bytes && self.committed >= it.copied.1;
            !it.is_backup && it.is_confirmed && has_all && it.acked >= self.committed
        };
        primary.followers.iter().find(|(_, it)| is_ready(it)).map(|(member, _)| *member)
    }
}

/// What an operation makes of bytes: the change, the word before it, and what is read.
fn carry_out(data: &[u8], action: &Action) -> (Change, u64, Vec<u8>) {
    let part = |offset: u64, bytes: u64| &data[offset as usize..(offset + bytes) as usize];
    let word = |offset| u64::from_le_bytes(part(offset, 8).try_into().unwrap_or_default());
    let store = |offset, new: u64| Change::Store { offset, bytes: Arc::from(new.to_le_bytes()) };
    match *action {
        Action::Read { offset, bytes } => (Change::Nothing, 0, part(offset, bytes).to_vec()),
        Action::Write { offset, ref bytes } => {
            (Change::Store { offset, bytes: bytes.clone() }, 0, Vec::new())
        }
        Action::Set { offset, bytes, value } => {
            (Change::Set { offset, bytes, value }, 0, Vec::new())
        }
        Action::Copy { from, to, bytes } => {
            (Change::Store { offset: to, bytes: Arc::from(part(from, bytes)) }, 0, Vec::new())
        }
        Action::FetchAdd { offset, more } => {
            let old = word(offset);
            (store(offset, old.wrapping_add(more)), old, Vec::new())
        }
        Action::CompareSwap { offset, expected, new } => match word(offset) {
            old if old == expected => (store(offset, new), old, Vec::new()),
            old => (Change::Nothing, old, Vec::new()),
        },
        Action::Swap { offset, new } => (store(offset, new), word(offset), Vec::new()),
    }
}
