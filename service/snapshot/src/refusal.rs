//! Why the snapshot service says no beside limits and revocations.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;

/// An ordinary no.
pub type Refusal = heliostat_service_grant::Refusal<Reason>;

/// What a request names is not there, or not the session's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
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
}

impl heliostat_service_grant::Reason for Reason {
    fn code(&self) -> Code {
        match self {
            Self::NotFound => Code::NotFound,
            Self::Taken { .. } => Code::BadState,
            Self::NotProducer { .. } | Self::NotAttached { .. } => Code::Denied,
        }
    }
}

impl fmt::Display for Reason {
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
        }
    }
}
