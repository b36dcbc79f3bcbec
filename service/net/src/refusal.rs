//! Why the net service says no beside limits and revocations.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;

/// An ordinary no.
pub type Refusal = heliostat_service_grant::Refusal<Reason>;

/// What a request names is not there, or not the session's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Nobody listens there under Heliostat.
    NotFound,
    /// The port object is gone, or this session never registered it.
    NotRegistered {
        /// The object that was named.
        port: ObjectId,
    },
}

impl heliostat_service_grant::Reason for Reason {
    fn code(&self) -> Code {
        match self {
            Self::NotFound => Code::NotFound,
            Self::NotRegistered { .. } => Code::Denied,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => write!(f, "nobody under Heliostat listens on that address"),
            Self::NotRegistered { port } => {
                write!(f, "port object {port} is not registered by this session")
            }
        }
    }
}
