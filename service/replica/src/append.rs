//! What a primary sends its backups, and what they answer.

use std::sync::Arc;

use crate::placement::{Placement, RequestId};

/// What an entry changes. Every change says what bytes become, so that it may be made twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing: of a read, and where a compare-and-swap met another value.
    Nothing,
    /// Bytes are stored.
    Store {
        /// Where.
        offset: u64,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// Bytes are set.
    Set {
        /// From where.
        offset: u64,
        /// How many.
        bytes: u64,
        /// To what.
        value: u8,
    },
}

/// One step of a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The epoch in which its primary became that: with its number it names the entry.
    pub term: u64,
    /// Whose request it was; of reads and copies to new backups it is not kept.
    pub id: Option<RequestId>,
    /// What a word was.
    pub word: u64,
    /// What becomes of the bytes.
    pub change: Change,
}

/// A node is to become a backup: it begins with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// The epoch in which it was made.
    pub epoch: u64,
    /// The entry after which it begins.
    pub base: u64,
    /// The replica that was begun by it, once the primary has heard of that. A message that is late may
    /// begin another one, which lacks what the first one has confirmed: nobody ever counts on that.
    pub instance: Option<u64>,
}

impl Invitation {
    /// Whether it was made after another one.
    pub(crate) fn is_after(&self, other: &Invitation) -> bool {
        (self.epoch, self.base) > (other.epoch, other.base)
    }
}

/// Entries for a backup, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Append {
    /// The placement by which this is sent.
    pub placement: Placement,
    /// The epoch in which the sender became primary.
    pub term: u64,
    /// The last entry that it knew to be on all replicas then.
    pub start: u64,
    /// The last one that it knows so now.
    pub committed: u64,
    /// To a node that is no backup yet.
    pub invitation: Option<Invitation>,
    /// The number of the first entry.
    pub first: u64,
    /// Which.
    pub entries: Vec<Entry>,
}

/// What a backup answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// It has entries as the primary has them.
    Have {
        /// All up to this one.
        entry: u64,
        /// Which replica of that node this is.
        instance: u64,
        /// The primary counts on this replica and on no other one of that node.
        is_confirmed: bool,
    },
    /// It follows nobody of that epoch any more.
    Stale,
    /// It has no replica.
    Unknown,
    /// It takes no replica in: it has as many as may be.
    Full,
}

impl Entry {
    /// What it takes in memory and in a message.
    pub(crate) fn bytes(&self) -> usize {
        let more = match &self.change {
            Change::Store { bytes, .. } => bytes.len(),
            _ => 0,
        };
        80 + more
    }
}
