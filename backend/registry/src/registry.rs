//! The interface of a registry: operations that end exactly once, a lease, and watches.
//!
//! A caller never waits: it begins an operation under a token of its own and takes the outcome from
//! [`Registry::next_event`], by the deadline at the latest. What happened is told exactly:
//!
//! | outcome | what is so |
//! |---|---|
//! | `Done` | it was done, in this revision |
//! | `Conflict` | nothing was done: the record is another than was expected, and this is what is there |
//! | `Unguarded` | nothing was done: the guard's record is not there any more in that revision |
//! | `NotDone` | nothing was done, and will not be |
//! | `Unknown` | it may have been done, or may be yet: read the key before anything is concluded |

use std::fmt;

use crate::key::{Key, Value};

/// Operations of one user of a registry that have not ended.
pub const OPERATIONS_MAX: usize = 1024;
/// Watches of one user of a registry.
pub const WATCHES_MAX: usize = 8;
/// Records in one answer; the rest is asked for from the last key on.
pub const LISTED_MAX: usize = 256;

/// A record, as it lies there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its key.
    pub key: Key,
    /// The revision of the registry in which it was written; never 0, and larger after each write.
    pub revision: u64,
    /// What it holds.
    pub value: Value,
}

/// A write that is done only if the record is what its writer believes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// Which record.
    pub key: Key,
    /// Its revision now; 0 where there is none.
    pub expected: u64,
    /// What it is to hold; `None` deletes it.
    pub value: Option<Value>,
    /// Whether it is deleted when the lease of its writer ends.
    pub is_leased: bool,
    /// What else has to be so.
    pub guard: Option<Guard>,
}

/// A record that has to be there in this very revision, or nothing is done: who was declared dead is
/// kept from writing by his own record, which is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guard {
    /// Which record.
    pub key: Key,
    /// Its revision; 0 where there is to be none.
    pub revision: u64,
}

/// What is asked of a registry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Read a record. Ends with `Found` or `Absent`.
    Get {
        /// Which.
        key: Key,
    },
    /// Read records in order of key, [`LISTED_MAX`] at most. Ends with `Listed`.
    List {
        /// Those whose keys begin so.
        prefix: Key,
        /// Only those behind this key.
        after: Option<Key>,
    },
    /// Write or delete a record. Ends with `Done`, `Conflict` or `Unguarded`.
    Write(Write),
    /// Begin a lease of this user of the registry, in place of the one that it has, which is ended.
    /// Ends with `Done`.
    Lease {
        /// How long it lasts without being kept alive.
        ttl_ms: u64,
    },
    /// Make the lease last for its whole time again, counted from when the registry hears of it. Ends
    /// with `Done`, or with `NotDone` for [`Why::NoLease`].
    KeepAlive,
    /// End the lease: what was written under it is deleted. Ends with `Done`.
    EndLease,
}

/// What became of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The record, and the registry's revision when it was read.
    Found(Record),
    /// There is no such record.
    Absent {
        /// The registry's revision when that was so.
        revision: u64,
    },
    /// Records.
    Listed {
        /// In order of key.
        records: Vec<Record>,
        /// The registry's revision when they were read: a watch after it misses nothing.
        revision: u64,
        /// Whether there are more behind the last of them.
        has_more: bool,
    },
    /// It was done.
    Done {
        /// In which revision; of a write, the record's from now on.
        revision: u64,
    },
    /// Nothing was done: what is there was not expected.
    Conflict {
        /// It; `None` where there is no such record.
        found: Option<Record>,
    },
    /// Nothing was done: the guard's record is not so.
    Unguarded,
    /// Nothing was done.
    NotDone(Why),
    /// It may have been done.
    Unknown(Why),
}

/// Why an outcome is not what was hoped for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// There was no answer by the deadline.
    Deadline,
    /// The registry is not reached, or not able to decide now; in words.
    Unreachable(String),
    /// There is no lease, or it has run out.
    NoLease,
    /// A table is full: which, and its limit.
    Full {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// The registry answered with what it must not; in words.
    Malformed(String),
    /// The registry refuses: a setting of it, rights; in words.
    Refused(String),
}

/// Which watch of its user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WatchId(pub u64);

/// A record was written or deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Which.
    pub key: Key,
    /// The revision in which that was done.
    pub revision: u64,
    /// What it holds; `None` where it was deleted, or its lease ended.
    pub value: Option<Value>,
}

/// What a registry tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An operation has ended.
    Ended {
        /// The one with this token.
        token: u64,
        /// What became of it.
        outcome: Outcome,
    },
    /// A record under a watch was changed. Every change is told once, in order of revision.
    Changed {
        /// By which watch.
        watch: WatchId,
        /// What.
        change: Change,
    },
    /// Changes may have been missed, and the watch has ended: list again, and watch from there.
    Broken {
        /// Which watch.
        watch: WatchId,
        /// Why, in words.
        why: String,
    },
}

/// A registry, as one of its users has it.
pub trait Registry {
    /// Begins an operation; never waits. Exactly one [`Event::Ended`] with this token follows, by the
    /// deadline (of the monotonic clock) at the latest, one that could not be begun included.
    /// Operations are done in the order in which they were begun.
    fn begin(&mut self, token: u64, operation: Operation, deadline_ns: u64);

    /// Begins to watch records whose keys begin with `prefix`: changes behind revision `after` are told.
    /// `None` where there are [`WATCHES_MAX`] already.
    fn watch(&mut self, prefix: Key, after: u64) -> Option<WatchId>;

    /// Ends a watch; nothing more is told of it.
    fn unwatch(&mut self, watch: WatchId);

    /// What has happened, one after the other; `None` where there is no more for now. Never waits.
    fn next_event(&mut self, now_ns: u64) -> Option<Event>;

    /// When [`Registry::next_event`] is due though nothing rang.
    fn next_ns(&self) -> Option<u64> {
        None
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Deadline => f.write_str("no answer by the deadline"),
            Why::Unreachable(why) => write!(f, "the registry is not reached: {why}"),
            Why::NoLease => f.write_str("the lease has run out"),
            Why::Full { what, limit } => write!(f, "{limit} {what} are the registry's limit"),
            Why::Malformed(what) => write!(f, "the registry's answer is malformed: {what}"),
            Why::Refused(why) => write!(f, "the registry refuses: {why}"),
        }
    }
}
