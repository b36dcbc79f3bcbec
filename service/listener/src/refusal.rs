//! Why the service of shared listeners says no beside limits and revocations.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_abi::name::{NetAddress, ObjectId};

/// An ordinary no.
pub type Refusal = heliostat_service_grant::Refusal<Reason>;

/// What a request names is not there, or not the session's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The address is not shared.
    NotShared {
        /// Which.
        address: NetAddress,
    },
    /// It is shared by another user's programs.
    NotOwner {
        /// Which.
        address: NetAddress,
    },
    /// There is one already.
    Exists {
        /// Which.
        address: NetAddress,
    },
    /// There is no such worker, or it is none of the session's.
    NotWorker {
        /// The object that was named.
        worker: ObjectId,
    },
}

impl heliostat_service_grant::Reason for Reason {
    fn code(&self) -> Code {
        match self {
            Self::NotShared { .. } => Code::NotFound,
            Self::NotOwner { .. } => Code::Denied,
            Self::Exists { .. } => Code::BadState,
            Self::NotWorker { .. } => Code::Stale,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotShared { address } => write!(f, "{address} is not a shared listener"),
            Self::NotOwner { address } => {
                write!(f, "the shared listener on {address} belongs to another user")
            }
            Self::Exists { address } => write!(f, "there is a shared listener on {address}"),
            Self::NotWorker { worker } => {
                write!(f, "worker {worker} of a shared listener is gone, or not this session's")
            }
        }
    }
}
