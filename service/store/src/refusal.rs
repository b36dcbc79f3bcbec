//! Why the store service says no beside limits and revocations.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{AreaRights, Spill};

use crate::done::Failed;

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
    /// The direct way was wanted, and is not to be had.
    NotDirect(Spill),
    /// Sessions have the area directly.
    Held {
        /// One of them.
        session: ObjectId,
        /// Handles.
        count: usize,
    },
    /// A session has the area alone.
    HasAlone {
        /// Which.
        session: ObjectId,
    },
    /// The area is wanted alone, and others may write it.
    HasWriters {
        /// One of them.
        session: ObjectId,
        /// Handles.
        count: usize,
    },
    /// The store has not done it.
    Store(Failed),
}

impl From<Failed> for Reason {
    fn from(failed: Failed) -> Reason {
        Reason::Store(failed)
    }
}

impl heliostat_service_grant::Reason for Reason {
    fn code(&self) -> Code {
        match self {
            Self::NotFound | Self::NoHandle { .. } => Code::NotFound,
            Self::Denied { .. } | Self::NotDirect(_) => Code::Denied,
            Self::NameTaken | Self::Busy | Self::Empty | Self::Held { .. } => Code::BadState,
            Self::HasAlone { .. } | Self::HasWriters { .. } => Code::BadState,
            Self::Ending => Code::Stale,
            Self::Store(Failed::Size { .. } | Failed::Held) => Code::BadState,
            Self::Store(Failed::Device) => Code::Internal,
            Self::Store(_) => Code::Full,
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
            Self::NotDirect(why) => write!(f, "the way is not direct: {}", why.text()),
            Self::Held { session, count } => {
                write!(f, "{count} handles on the area are direct, one of session {session}")
            }
            Self::HasAlone { session } => write!(f, "session {session} has the area alone"),
            Self::HasWriters { session, count } => {
                write!(f, "{count} handles may write the area, one of session {session}")
            }
            Self::Store(failed) => write!(f, "the store has not done it: {failed:?}"),
        }
    }
}
