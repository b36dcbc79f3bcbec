//! Why the memory service says no beside limits and revocations.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_abi::memory::limits::ARENA_BYTES_MAX;
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;

/// An ordinary no.
pub type Refusal = heliostat_service_grant::Refusal<Reason>;

/// What a request names is not there, or not the session's, or not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// No region has that name, or that identity.
    NotFound,
    /// The session has no such handle.
    NoHandle {
        /// What was named.
        handle: ObjectId,
    },
    /// The region of the handle is gone.
    Stale {
        /// The region.
        region: ObjectId,
    },
    /// The handle, or the user, lacks a right.
    Lacks {
        /// All that would be needed.
        rights: Rights,
    },
    /// Another region of the user has that name.
    Taken {
        /// That one.
        region: ObjectId,
    },
    /// A region has at least one byte, and no more than an arena may have.
    Length {
        /// What was asked for.
        bytes: u64,
    },
    /// A region does not become shorter.
    Shorter {
        /// What it has.
        bytes: u64,
    },
    /// The arena is no longer there, or none that the session may map.
    NoArena {
        /// What was named.
        arena: ObjectId,
    },
    /// The region is on its way to other pieces.
    Moves {
        /// The region.
        region: ObjectId,
    },
    /// The session's operations are delegated already.
    Served,
    /// There is nothing to answer, or it was answered.
    NoQuestion,
    /// Who may map the region said no, or nothing in time.
    Unwilling,
}

impl heliostat_service_grant::Reason for Reason {
    fn code(&self) -> Code {
        match self {
            Self::NotFound | Self::NoHandle { .. } | Self::NoQuestion => Code::NotFound,
            Self::Stale { .. } => Code::Stale,
            Self::Lacks { .. } | Self::NoArena { .. } => Code::Denied,
            Self::Taken { .. } | Self::Served | Self::Moves { .. } => Code::BadState,
            Self::Length { .. } | Self::Shorter { .. } => Code::BadRecord,
            Self::Unwilling => Code::Unwilling,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => write!(f, "no region has that name"),
            Self::NoHandle { handle } => write!(f, "the session has no handle {handle}"),
            Self::Stale { region } => write!(f, "region {region} is gone"),
            Self::Lacks { rights } => write!(f, "the right to {rights} is missing"),
            Self::Taken { region } => write!(f, "region {region} has that name already"),
            Self::Length { bytes } => {
                write!(f, "a region has 1 to {ARENA_BYTES_MAX} bytes, not {bytes}")
            }
            Self::Shorter { bytes } => write!(f, "the region has {bytes} bytes already"),
            Self::NoArena { arena } => write!(f, "arena {arena} is none of this session's user"),
            Self::Moves { region } => write!(f, "region {region} is on its way to other pieces"),
            Self::Served => write!(f, "the session's operations are delegated already"),
            Self::NoQuestion => write!(f, "there is no such question"),
            Self::Unwilling => write!(f, "who may map it said no, or nothing in time"),
        }
    }
}
