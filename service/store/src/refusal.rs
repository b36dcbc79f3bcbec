//! Why the store service says no beside limits and revocations.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::AreaRights;

/// An ordinary no.
pub type Refusal = heliostat_service_grant::Refusal<Reason>;

/// What a request names is not there, or not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// No area has that name.
    NotFound,
    /// The user has an area of that name.
    NameTaken,
    /// The session has no such handle.
    NoHandle {
        /// What was named.
        handle: ObjectId,
    },
    /// The area's owner does not let the session do that.
    Denied {
        /// What was wanted.
        wanted: AreaRights,
        /// What the session may.
        allowed: AreaRights,
    },
    /// Another change of the area is under way.
    Busy,
    /// The area ends.
    Ending,
    /// An area has at least one byte.
    Empty,
    /// The disk has no room of this kind, or another limit of the store is reached.
    NoRoom,
    /// The disk failed.
    DeviceFailed,
}

impl heliostat_service_grant::Reason for Reason {
    fn code(&self) -> Code {
        match self {
            Self::NotFound | Self::NoHandle { .. } => Code::NotFound,
            Self::Denied { .. } => Code::Denied,
            Self::NameTaken | Self::Busy | Self::Empty => Code::BadState,
            Self::Ending => Code::Stale,
            Self::NoRoom => Code::Full,
            Self::DeviceFailed => Code::Internal,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => write!(f, "no area has that name"),
            Self::NameTaken => write!(f, "the user has an area of that name"),
            Self::NoHandle { handle } => write!(f, "the session has no handle {handle}"),
            Self::Denied { wanted, allowed } => {
                write!(f, "{wanted} is wanted, and {allowed} is what the owner allows")
            }
            Self::Busy => write!(f, "another change of the area is under way"),
            Self::Ending => write!(f, "the area ends"),
            Self::Empty => write!(f, "an area has at least one byte"),
            Self::NoRoom => write!(f, "the store has no room for that"),
            Self::DeviceFailed => write!(f, "the device under the store failed"),
        }
    }
}
