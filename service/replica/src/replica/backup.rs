//! A backup takes entries of the primary that it follows, in order.
//!
//! ```text
//! base ... committed ... matched ... end
//!    in the bytes | as the primary's | of an earlier primary, until the new one says otherwise
//! ```

use super::{Effect, Replica, Role};
use crate::append::{Append, Change, Entry, Received};
use crate::placement::Member;
use crate::{LOG_BYTES_MAX, LOG_ENTRIES_MAX};

/// What a primary keeps at most that not all have, and what was on its way when it was that.
const OPEN_BYTES_MAX: usize = 2 * LOG_BYTES_MAX;
const OPEN_ENTRIES_MAX: u64 = 2 * LOG_ENTRIES_MAX as u64;

impl Replica {
    /// Entries have come from a node that takes itself for the primary.
    pub fn append(&mut self, from: Member, append: Append, effects: &mut Vec<Effect>) -> Received {
        let is_same = append.placement.bytes == self.placement.bytes;
        if append.placement.epoch < self.promised || append.placement.primary != from || !is_same {
            return Received::Stale;
        }
        match &self.role {
            // What it had is not to be believed: some of it was never answered.
            Role::Primary(_) if append.placement.epoch > self.placement.epoch => {
                self.end(effects);
                return Received::Unknown;
            }
            Role::Primary(_) => return Received::Stale,
            Role::Ended => return Received::Unknown,
            Role::Follower | Role::Claiming(_) => {}
        }
        if let Some(refused) = self.is_meant(&append, effects) {
            return refused;
        }
        self.follow(append)
    }

    /// Whether entries are for this very replica; else what is answered.
    fn is_meant(&mut self, append: &Append, effects: &mut Vec<Effect>) -> Option<Received> {
        match append.invitation {
            None if !append.placement.backups.contains(&self.me) || !self.is_confirmed => {
                self.end(effects);
                return Some(Received::Unknown);
            }
            None => {}
            Some(new) if new.instance.is_some() => {
                if new.instance != Some(self.instance) {
                    return Some(Received::Unknown);
                }
                self.is_confirmed = true;
            }
            // Another one has to be begun, which its node does.
            Some(new) if self.invitation.is_none_or(|own| new.is_after(&own)) => {
                self.end(effects);
                return Some(Received::Unknown);
            }
            Some(new) if self.invitation.is_some_and(|own| own.is_after(&new)) => {
                return Some(Received::Stale);
            }
            Some(_) => {}
        }
        None
    }

    fn follow(&mut self, append: Append) -> Received {
        (self.role, self.is_heard) = (Role::Follower, true);
        self.promised = append.placement.epoch;
        self.placement = append.placement;
        if self.followed.0 != append.term {
            let known = self.committed.max(append.start.min(self.log.end()));
            self.followed = (append.term, known);
        }
        for (number, entry) in (append.first..).zip(append.entries) {
            if number > self.followed.1 + 1 || number > self.log.end() && self.is_log_full() {
                break;
            }
            if !entry.fits(self.placement.bytes) {
                return Received::Stale;
            }
            self.take(number, entry);
        }
        self.committed = self.committed.max(append.committed.min(self.followed.1));
        self.log.apply_to(self.committed);
        self.log.forget_to(self.committed);
        let (entry, instance, is_confirmed) = (self.followed.1, self.instance, self.is_confirmed);
        Received::Have { entry, instance, is_confirmed }
    }

    /// Whether it keeps more entries than an honest primary has sent and not confirmed.
    fn is_log_full(&self) -> bool {
        let count = self.log.end() - self.log.base();
        self.log.entry_bytes() >= OPEN_BYTES_MAX || count >= OPEN_ENTRIES_MAX
    }

    fn take(&mut self, number: u64, entry: Entry) {
        if number <= self.followed.1 {
            return;
        }
        // With the same term it is the same entry.
        if self.log.get(number).is_none_or(|own| own.term != entry.term) {
            self.log.cut_from(number);
            self.log.push(entry);
        }
        self.followed.1 = number;
    }
}

impl Entry {
    /// Whether all that it changes lies in a region of so many bytes.
    fn fits(&self, size: u64) -> bool {
        let (offset, bytes) = match &self.change {
            Change::Nothing => (0, 0),
            Change::Store { offset, bytes } => (*offset, bytes.len() as u64),
            Change::Set { offset, bytes, .. } => (*offset, *bytes),
        };
        offset.checked_add(bytes).is_some_and(|end| end <= size)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::append::Invitation;
    use crate::placement::{Identity, Placement};

    /// Entries of a primary that never confirms any.
    fn entries(first: u64, count: u64, bytes: usize) -> Append {
        let primary = Member { node: 1, life: 1 };
        let placement = Placement {
            appointed: Vec::new(),
            identity: Identity { maker: primary, number: 1 },
            owner: 7,
            others: 0,
            bytes: 1 << 20,
            wanted: 2,
            epoch: 1,
            primary,
            backups: vec![Member { node: 2, life: 1 }],
        };
        let change = Change::Store { offset: 0, bytes: Arc::from(vec![1; bytes]) };
        let entry = Entry { term: 1, id: None, word: 0, change };
        let invitation = Some(Invitation { epoch: 1, base: 0, instance: None });
        let entries = vec![entry; count as usize];
        Append { placement, term: 1, start: 0, committed: 0, invitation, first, entries }
    }

    #[test]
    fn a_primary_that_confirms_nothing_fills_a_log_and_no_more() {
        let me = Member { node: 2, life: 1 };
        for (count, bytes) in [(16, 65_536), (4096, 8)] {
            let append = entries(1, count, bytes);
            let mut backup = Replica::invited(me, &append, (16, 1)).unwrap();
            let mut have = 0;
            for _ in 0..64 {
                let from = append.placement.primary;
                let sent = entries(have + 1, count, bytes);
                let Received::Have { entry, .. } = backup.append(from, sent, &mut Vec::new())
                else {
                    panic!("not taken")
                };
                have = entry;
            }
            assert_eq!(backup.log.end(), have, "and it says what it has");
            assert!(backup.log.entry_bytes() <= OPEN_BYTES_MAX + bytes + 80);
            assert!(have <= OPEN_ENTRIES_MAX, "{have}");
        }
    }
}
