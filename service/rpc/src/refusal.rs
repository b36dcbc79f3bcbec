//! Why the service of remote procedure calls says no beside limits and revocations.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;

/// An ordinary no.
pub type Refusal = heliostat_service_grant::Refusal<Reason>;

/// What a request names is not there, or not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Nobody serves a function of that name.
    NotFound,
    /// The session neither serves nor calls such a function.
    NoFunction {
        /// What was named.
        function: ObjectId,
    },
    /// The session's operations are delegated already.
    Served,
}

impl heliostat_service_grant::Reason for Reason {
    fn code(&self) -> Code {
        match self {
            Self::NotFound | Self::NoFunction { .. } => Code::NotFound,
            Self::Served => Code::BadState,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => write!(f, "nobody serves a function of that name"),
            Self::NoFunction { function } => {
                write!(f, "the session neither serves nor calls function {function}")
            }
            Self::Served => write!(f, "the session's operations are delegated already"),
        }
    }
}
