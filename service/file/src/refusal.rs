//! Why the file service says no; each value carries the limit or object that decided.

use std::fmt;

use heliostat_abi::name::ObjectId;
use heliostat_abi::record::Bound;

/// An ordinary no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its last lease was broken, and the file is left alone for a while.
    Pause {
        /// How much longer.
        left_ns: u64,
    },
    /// The lease is just being taken for another session.
    Taking {
        /// The lease.
        lease: ObjectId,
    },
    /// The lease is over, or not this session's.
    NotHeld {
        /// The object that was named.
        lease: ObjectId,
    },
    /// A limit is reached.
    Full {
        /// On what, and whose.
        bound: Bound,
        /// The limit in force.
        limit: u64,
    },
    /// The session's grants were revoked; it gets no new ones.
    Revoked,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause { left_ns } => {
                write!(f, "its lease was broken, the next is {} ms away", left_ns / 1_000_000)
            }
            Self::Taking { lease } => write!(f, "lease {lease} is just being taken"),
            Self::NotHeld { lease } => write!(f, "lease {lease} is none of this session"),
            Self::Full { bound: Bound { thing, side }, limit } => {
                write!(f, "{} has no more than {limit} {}", side.text(), thing.text())
            }
            Self::Revoked => write!(f, "the session's grants were revoked"),
        }
    }
}

impl std::error::Error for Refusal {}
