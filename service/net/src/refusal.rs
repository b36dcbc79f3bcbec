//! Why the net service says no; each value carries the limit or object that decided.

use std::fmt;

use heliostat_abi::name::ObjectId;
use heliostat_abi::record::Bound;

/// An ordinary no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Nobody listens there under Heliostat.
    NotFound,
    /// The port object is gone, or this session never registered it.
    NotRegistered {
        /// The object that was named.
        port: ObjectId,
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
            Self::NotFound => write!(f, "nobody under Heliostat listens on that address"),
            Self::NotRegistered { port } => {
                write!(f, "port object {port} is not registered by this session")
            }
            Self::Full { bound: Bound { thing, side }, limit } => {
                write!(f, "{} has no more than {limit} {}", side.text(), thing.text())
            }
            Self::Revoked => write!(f, "the session's grants were revoked"),
        }
    }
}

impl std::error::Error for Refusal {}
