//! What clients ask of a primary, and what it answers.

use std::sync::Arc;

use crate::placement::{Identity, RequestId};

/// What is done with a region's bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// They are read.
    Read {
        /// From where.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// They are written.
    Write {
        /// Where to.
        offset: u64,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// They are set.
    Set {
        /// From where.
        offset: u64,
        /// How many.
        bytes: u64,
        /// To what.
        value: u8,
    },
    /// They are copied within the region.
    Copy {
        /// From where.
        from: u64,
        /// Where to.
        to: u64,
        /// How many.
        bytes: u64,
    },
    /// A word gets more.
    FetchAdd {
        /// Where.
        offset: u64,
        /// What is added.
        more: u64,
    },
    /// A word is stored if it is what was expected.
    CompareSwap {
        /// Where.
        offset: u64,
        /// What it has to be.
        expected: u64,
        /// What it becomes.
        new: u64,
    },
    /// A word is stored.
    Swap {
        /// Where.
        offset: u64,
        /// What it becomes.
        new: u64,
    },
}

/// An operation of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operate {
    /// On which region.
    pub region: Identity,
    /// The epoch of the placement that the client knows.
    pub epoch: u64,
    /// Which request.
    pub id: RequestId,
    /// An entry that was answered before this request was first made: if it was done, it was later.
    pub floor: u64,
    /// What.
    pub action: Action,
}

/// What a primary answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Done(Answered),
    /// This node is not the primary, or is so no more: ask who is. If it was begun here, it may yet be
    /// done by another one.
    NotPrimary {
        /// It was begun.
        may_be_done: bool,
    },
    /// As much waits for backups as may: not done, to be asked again.
    Busy,
    /// Whether it was done already is forgotten. It was not done now; `floor` is the last entry.
    TooOld {
        /// What may be told as a floor from now on.
        floor: u64,
    },
    /// Not all of it lies in the region, or a word at no multiple of 8: not done.
    Range,
    /// The user may not: not done.
    Denied,
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answered {
    /// By which entry.
    pub entry: u64,
    /// What a word was.
    pub word: u64,
    /// What was read.
    pub read: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// Nothing was sent, or the node says that it did nothing.
    NotSent,
    /// It may have come there.
    Unknown,
}

impl Action {
    /// The first of its bytes and their number.
    pub fn range(&self) -> (u64, u64) {
        match self {
            Action::Read { offset, bytes } | Action::Set { offset, bytes, .. } => (*offset, *bytes),
            Action::Write { offset, bytes } => (*offset, bytes.len() as u64),
            Action::Copy { to, bytes, .. } => (*to, *bytes),
            Action::FetchAdd { offset, .. }
            | Action::CompareSwap { offset, .. }
            | Action::Swap { offset, .. } => (*offset, 8),
        }
    }

    /// Whether it may be done in a region of so many bytes.
    pub(crate) fn fits(&self, size: u64) -> bool {
        let lies = |(offset, bytes): (u64, u64)| {
            bytes <= crate::OPERATION_BYTES_MAX
                && offset.checked_add(bytes).is_some_and(|end| end <= size)
        };
        let source = match self {
            Action::Copy { from, bytes, .. } => lies((*from, *bytes)),
            Action::FetchAdd { offset, .. }
            | Action::CompareSwap { offset, .. }
            | Action::Swap { offset, .. } => offset % 8 == 0,
            _ => true,
        };
        source && lies(self.range())
    }
}
