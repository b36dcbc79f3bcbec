//! Why the file service says no beside limits and revocations.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;

/// An ordinary no.
pub type Refusal = heliostat_service_grant::Refusal<Reason>;

/// What a request names cannot be had now, or is not the session's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
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
}

impl heliostat_service_grant::Reason for Reason {
    fn code(&self) -> Code {
        match self {
            Self::Pause { .. } | Self::Taking { .. } => Code::BadState,
            Self::NotHeld { .. } => Code::Denied,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause { left_ns } => {
                write!(f, "its lease was broken, the next is {} ms away", left_ns / 1_000_000)
            }
            Self::Taking { lease } => write!(f, "lease {lease} is just being taken"),
            Self::NotHeld { lease } => write!(f, "lease {lease} is none of this session"),
        }
    }
}
