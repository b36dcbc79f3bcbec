//! Why the snapshot service says no; each value carries the limit or object that decided.

use std::fmt;

use heliostat_abi::name::ObjectId;
use heliostat_abi::record::Bound;

/// An ordinary no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No region has that name now.
    NotFound,
    /// The name is in use by a living producer.
    Taken {
        /// Its region.
        region: ObjectId,
    },
    /// The region is gone, or not this session's.
    NotProducer {
        /// The object that was named.
        region: ObjectId,
    },
    /// The attachment is gone, or not this session's.
    NotAttached {
        /// The object that was named.
        consumer: ObjectId,
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
            Self::NotFound => write!(f, "no region has that name"),
            Self::Taken { region } => write!(f, "region {region} has that name already"),
            Self::NotProducer { region } => {
                write!(f, "region {region} was not published by this session")
            }
            Self::NotAttached { consumer } => {
                write!(f, "consumer {consumer} is none of this session")
            }
            Self::Full { bound: Bound { thing, side }, limit } => {
                write!(f, "{} has no more than {limit} {}", side.text(), thing.text())
            }
            Self::Revoked => write!(f, "the session's grants were revoked"),
        }
    }
}

impl std::error::Error for Refusal {}
