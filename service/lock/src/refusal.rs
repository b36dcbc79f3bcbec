//! Why the lock service says no beside limits and revocations.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_abi::lock::Shape;
use heliostat_abi::name::ObjectId;

/// An ordinary no.
pub type Refusal = heliostat_service_grant::Refusal<Reason>;

/// What a request names is not there, or not the session's, or not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The session has no such handle.
    NoHandle {
        /// What was named.
        handle: ObjectId,
    },
    /// The session has no such ticket.
    NoTicket {
        /// What was named.
        ticket: ObjectId,
    },
    /// The ticket holds nothing that could be released.
    NotHeld {
        /// Which.
        ticket: ObjectId,
    },
    /// What has the name is something else.
    Shape {
        /// What it is.
        found: Shape,
    },
    /// That cannot be claimed of this, or asked of it.
    Claim {
        /// What it is.
        found: Shape,
    },
}

impl heliostat_service_grant::Reason for Reason {
    fn code(&self) -> Code {
        match self {
            Self::NoHandle { .. } | Self::NoTicket { .. } => Code::NotFound,
            Self::NotHeld { .. } | Self::Shape { .. } => Code::BadState,
            Self::Claim { .. } => Code::BadRecord,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHandle { handle } => write!(f, "the session has no handle {handle}"),
            Self::NoTicket { ticket } => write!(f, "the session has no ticket {ticket}"),
            Self::NotHeld { ticket } => write!(f, "ticket {ticket} holds nothing"),
            Self::Shape { found } => {
                write!(f, "the name is that of a {} ({})", found.kind.word(), found.count)
            }
            Self::Claim { found } => {
                write!(f, "a {} ({}) is not asked for that", found.kind.word(), found.count)
            }
        }
    }
}
