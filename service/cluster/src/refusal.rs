//! Why the cluster service says no.

use std::fmt;

use heliostat_abi::cluster::limits::MEMBERS_MAX;
use heliostat_abi::code::Code;

/// An ordinary no.
pub type Refusal = heliostat_service_grant::Refusal<Reason>;

/// What a command names is not there, or not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// No member has that number, or none whose address is known.
    NotFound {
        /// What was named.
        node: u64,
    },
    /// It is this node.
    Here,
    /// There are as many members as there may be.
    Full,
    /// The node's thread has ended.
    Ended,
}

impl heliostat_service_grant::Reason for Reason {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::NotFound,
            Self::Here => Code::BadState,
            Self::Full => Code::Full,
            Self::Ended => Code::Internal,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { node } => write!(f, "node {node} is no member with an address"),
            Self::Here => f.write_str("it is this node"),
            Self::Full => write!(f, "there are {MEMBERS_MAX} members already"),
            Self::Ended => f.write_str("the node's thread has ended"),
        }
    }
}
