//! A backup takes entries of the primary that it follows, in order.
//!
//! ```text
//! base ... committed ... matched ... end
//!    in the bytes | as the primary's | of an earlier primary, until the new one says otherwise
//! ```

use crate::append::{Append, Change, Entry, Received};
use crate::placement::Member;
use crate::replica::{Effect, Replica, Role};

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
            if number > self.followed.1 + 1 {
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
