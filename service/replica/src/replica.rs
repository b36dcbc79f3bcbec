//! One region's replica on one node: what it is told, and who it is at the moment.

mod backup;
mod claim;
mod primary;
mod propose;

use crate::action::Answer;
use crate::append::{Append, Invitation};
use crate::log::Log;
use crate::placement::{Member, Placement, Revision};
use claim::Claim;
use primary::Primary;

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Sends entries; `received` or `not_received` follows.
    Append {
        /// To whom.
        to: Member,
        /// To which follower: told with the answer.
        tag: (u64, u64),
        /// Which.
        append: Box<Append>,
    },
    /// Answers an operation.
    Answer {
        /// Which, as it was named.
        token: u64,
        /// What.
        answer: Answer,
    },
    /// Puts the record in the registry, or removes it, if its revision is still that; `proposed` follows.
    Propose {
        /// Which proposal: told with its outcome.
        attempt: u64,
        /// The revision; 0 where there is to be no record.
        expected: Revision,
        /// The record, or none.
        placement: Option<Box<Placement>>,
    },
    /// Reads the record from the registry; `looked` or `not_looked` with this number follows.
    Look(u64),
    /// Tells a node that its replica is not needed.
    Forget {
        /// Whom.
        to: Member,
        /// Replicas of this epoch and before are meant.
        epoch: u64,
    },
    /// The region is made, or is not.
    Made(u64, Result<(), Fault>),
    /// The region is freed, or is not.
    Freed(u64, Result<(), Fault>),
    /// Who may use it is altered, or is not; after `NotPrimary` it may be yet.
    Altered(u64, Result<(), Fault>),
    /// This replica is over: it has no bytes any more.
    Ended,
}

/// Why a region is not made or freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Another one has the name.
    Exists,
    /// A node has no room, or the record; of that the limit.
    Full(u64),
    /// A node cannot be reached.
    Unreachable(u64),
    /// This node is not the primary.
    NotPrimary,
    /// The user may not.
    Denied,
}

/// What the registry says of a proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The record stands.
    Accepted(Revision),
    /// It has another revision.
    Conflict,
    /// Whoever keeps records has as many as may be, and none of this name; the limit.
    Full(u64),
    /// Nobody knows; it may stand yet.
    Unknown,
}

/// What the registry has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// 0 where there is none.
    pub revision: Revision,
    /// Where the region lies.
    pub placement: Option<Placement>,
}

/// A replica.
pub struct Replica {
    pub(crate) me: Member,
    pub(crate) placement: Placement,
    pub(crate) revision: Revision,
    pub(crate) log: Log,
    /// All replicas have entries up to this one.
    pub(crate) committed: u64,
    pub(crate) role: Role,
    /// Primaries of an earlier epoch are not followed.
    pub(crate) promised: u64,
    /// The term of the primary that is followed, and up to which entry this log is as its own.
    pub(crate) followed: (u64, u64),
    pub(crate) invitation: Option<Invitation>,
    pub(crate) instance: u64,
    /// A primary has said that it counts on this replica.
    pub(crate) is_confirmed: bool,
    pub(crate) is_looking: bool,
    /// Looks and proposals until now.
    looks: u64,
    pub(crate) attempts: u64,
    pub(crate) is_heard: bool,
    heard_ns: u64,
}

/// Who a replica is.
pub(crate) enum Role {
    /// It follows.
    Follower,
    /// It wants to be the primary.
    Claiming(Claim),
    /// It orders operations.
    Primary(Box<Primary>),
    /// It is over.
    Ended,
}

impl Replica {
    /// A region is to be made by this node: backups are told, then the record is put.
    pub fn make(
        placement: Placement,
        recent: usize,
        token: u64,
        effects: &mut Vec<Effect>,
    ) -> Replica {
        let primary = Primary::new(&placement, 0, Some(token));
        let mut made = Replica::zeros(placement.primary, placement, (0, recent));
        made.role = Role::Primary(Box::new(primary));
        made.go_on(effects);
        made
    }

    /// A node is invited to have a replica.
    /// `instance` is a number that no other replica of this node has, or had.
    pub fn invited(
        me: Member,
        append: &Append,
        (recent, instance): (usize, u64),
    ) -> Option<Replica> {
        let invitation = append.invitation.filter(|it| it.instance.is_none())?;
        let placement = append.placement.clone();
        let mut replica = Replica::zeros(me, placement, (invitation.base, recent));
        replica.invitation = Some(invitation);
        (replica.instance, replica.is_confirmed) = (instance, false);
        // Answers to an earlier replica of this node have other numbers.
        (replica.looks, replica.attempts) = (instance << 24, instance << 24);
        replica.followed = (append.term, invitation.base);
        replica.promised = append.placement.epoch;
        Some(replica)
    }

    fn zeros(me: Member, placement: Placement, (base, recent): (u64, usize)) -> Replica {
        Replica {
            me,
            revision: 0,
            log: Log::zeros(placement.bytes, base, recent),
            committed: base,
            role: Role::Follower,
            promised: placement.epoch,
            followed: (0, base),
            invitation: None,
            instance: 0,
            is_confirmed: true,
            is_looking: false,
            looks: 0,
            attempts: 0,
            is_heard: true,
            heard_ns: 0,
            placement,
        }
    }

    /// Where the region lies, as far as this node knows.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Whether it is the primary's.
    pub fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary(_))
    }

    /// Whether it is over.
    pub fn is_ended(&self) -> bool {
        matches!(self.role, Role::Ended)
    }

    /// The last entry, and the last one that all replicas have.
    pub fn entries(&self) -> (u64, u64) {
        (self.log.end(), self.committed)
    }

    /// For people who look for a mistake.
    pub fn describe(&self) -> String {
        let (end, base) = (self.log.end(), self.log.base());
        let role = match &self.role {
            Role::Follower => "follower".to_string(),
            Role::Claiming(_) => "claiming".to_string(),
            Role::Primary(primary) => format!("primary {:?}", primary.followers),
            Role::Ended => "over".to_string(),
        };
        let (epoch, promised, committed) = (self.placement.epoch, self.promised, self.committed);
        format!(
            "epoch {epoch} promised {promised} entries {base}..{committed}..{end} followed {:?} {role}",
            self.followed
        )
    }

    /// The bytes, for tests.
    pub fn data(&self) -> &[u8] {
        &self.log.data
    }

    /// Time went by: whoever is not joined is taken for lost, and what was not confirmed is sent again.
    /// Who has heard nothing for `silence_ns` looks whether it follows the right one.
    pub fn tick(
        &mut self,
        (now_ns, silence_ns): (u64, u64),
        is_joined: impl Fn(Member) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        if std::mem::take(&mut self.is_heard) {
            self.heard_ns = now_ns;
        }
        let is_silent = now_ns.saturating_sub(self.heard_ns) >= silence_ns;
        match &self.role {
            Role::Primary(primary) => {
                let lost: Vec<_> =
                    primary.followers.keys().copied().filter(|it| !is_joined(*it)).collect();
                lost.into_iter().for_each(|it| self.lose_follower(it));
                self.send_again();
                self.press_proposal(effects);
                self.go_on(effects);
            }
            Role::Follower if !is_joined(self.placement.primary) => self.claim(effects),
            Role::Follower if is_silent => {
                self.heard_ns = now_ns;
                self.look(effects);
            }
            Role::Claiming(_) => self.press_claim(effects),
            Role::Follower | Role::Ended => {}
        }
    }

    /// Whether something of it waits for time to go by.
    pub fn is_restless(&self) -> bool {
        match &self.role {
            Role::Primary(primary) => {
                primary.proposal.is_some()
                    || self.log.end() > self.log.base()
                    || primary.is_copying()
            }
            Role::Claiming(_) => true,
            Role::Follower | Role::Ended => false,
        }
    }

    /// A node is lost: it may be dead, hung, or on the other side of a cut.
    pub fn lose(&mut self, member: Member, effects: &mut Vec<Effect>) {
        match &self.role {
            Role::Primary(_) => {
                self.lose_follower(member);
                self.go_on(effects);
            }
            Role::Follower if self.placement.primary == member => self.claim(effects),
            _ => {}
        }
    }

    /// The registry has answered a look.
    pub fn looked(&mut self, look: u64, record: Record, effects: &mut Vec<Effect>) {
        // What an earlier look says may be older than what this replica knows.
        if look != self.looks {
            return;
        }
        self.is_looking = false;
        let Record { revision, placement } = record;
        // One of another length is no record of this region.
        let own = (self.placement.identity, self.placement.bytes);
        let its = placement.filter(|it| (it.identity, it.bytes) == own);
        match (&self.role, its) {
            (Role::Primary(_), its) => self.looked_as_primary(revision, its, effects),
            (Role::Claiming(_), Some(its)) => self.looked_as_claimer(revision, its, effects),
            (Role::Follower, Some(its)) => {
                let is_member = |it: &Placement| it.backups.contains(&self.me);
                let was_member = is_member(&self.placement);
                if its.epoch <= self.placement.epoch {
                    return;
                }
                match is_member(&its) {
                    // It has not heard of this one's primary yet, and follows nobody before.
                    true if self.is_confirmed => {
                        self.promised = its.epoch;
                        self.placement = its;
                    }
                    _ if was_member => self.end(effects),
                    _ => {}
                }
            }
            (Role::Claiming(_) | Role::Follower, None) => self.end(effects),
            (Role::Ended, _) => {}
        }
    }

    /// The registry could not be asked.
    pub fn not_looked(&mut self, look: u64) {
        self.is_looking &= look != self.looks;
    }

    /// The registry has answered a proposal.
    pub fn proposed(&mut self, attempt: u64, outcome: Outcome, effects: &mut Vec<Effect>) {
        // What became of an earlier one a look has said since.
        if attempt != self.attempts {
            return;
        }
        match &mut self.role {
            Role::Primary(_) => self.proposed_as_primary(outcome, effects),
            Role::Claiming(_) => self.proposed_as_claimer(outcome, effects),
            Role::Follower | Role::Ended => {}
        }
    }

    /// Somebody says that the region is no more, or that this replica is not needed.
    pub fn forget(&mut self, epoch: u64, effects: &mut Vec<Effect>) {
        if epoch >= self.promised && !self.is_primary() {
            self.end(effects);
        }
    }

    pub(crate) fn look(&mut self, effects: &mut Vec<Effect>) {
        if !std::mem::replace(&mut self.is_looking, true) {
            self.looks += 1;
            effects.push(Effect::Look(self.looks));
        }
    }

    /// This replica is over. Whatever it was asked and has not answered may yet be done by another one.
    pub(crate) fn end(&mut self, effects: &mut Vec<Effect>) {
        if let Role::Primary(primary) = std::mem::replace(&mut self.role, Role::Ended) {
            primary.give_up(effects);
        }
        self.log = Log::zeros(0, 0, 0);
        effects.push(Effect::Ended);
    }
}
