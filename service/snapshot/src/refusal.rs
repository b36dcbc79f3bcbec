//! Why the snapshot service says no; each value carries the limit or object that decided.

use std::fmt;

use heliostat_abi::name::ObjectId;

/// What there is only so much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// Named regions on the node.
    Regions,
    /// Named regions of one session.
    RegionsPerSession,
    /// Attachments on the node.
    Attachments,
    /// Attachments of one session.
    AttachmentsPerSession,
    /// Consumers of one region.
    ConsumersPerRegion,
}

impl Resource {
    /// The limit's key in the configuration, or the constant that fixes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Regions => "REGIONS_MAX",
            Self::RegionsPerSession => "limits.regions_per_session",
            Self::Attachments => "ATTACHMENTS_MAX",
            Self::AttachmentsPerSession => "limits.attachments_per_session",
            Self::ConsumersPerRegion => "CONSUMERS_MAX",
        }
    }
}

/// An ordinary no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
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
    /// A limit is reached.
    Full {
        /// Of what.
        resource: Resource,
        /// The limit in force.
        limit: u64,
    },
    /// The session's grants were revoked; it gets no new ones.
    Revoked,
}

impl fmt::Display for Refusal {
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
            Self::Full { resource, limit } => write!(f, "{} is reached: {limit}", resource.name()),
            Self::Revoked => write!(f, "the session's grants were revoked"),
        }
    }
}

impl std::error::Error for Refusal {}
