//! Why the net service says no; each value carries the limit or object that decided.

use std::fmt;

use heliostat_abi::name::ObjectId;

/// What there is only so much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// Listening addresses on the node.
    Ports,
    /// Listening addresses of one session.
    PortsPerSession,
    /// Channels on the node.
    Channels,
    /// Channels of one connecting session.
    ChannelsPerSession,
    /// Channels of one session to one listening address.
    ChannelsPerPair,
    /// Bytes of shared memory of one session.
    BytesPerSession,
    /// Bytes of shared memory of one user.
    BytesPerUser,
}

impl Resource {
    /// The limit's key in the configuration, or the constant that fixes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ports => "PORTS_MAX",
            Self::PortsPerSession => "limits.ports_per_session",
            Self::Channels => "CHANNELS_MAX",
            Self::ChannelsPerSession => "limits.channels_per_session",
            Self::ChannelsPerPair => "limits.channels_per_pair",
            Self::BytesPerSession => "limits.shared_bytes_per_session",
            Self::BytesPerUser => "limits.shared_bytes_per_user",
        }
    }
}

/// An ordinary no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Nobody listens there under Heliostat.
    NotFound,
    /// The port object is gone, or this session never registered it.
    NotRegistered {
        /// The object that was named.
        port: ObjectId,
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
            Self::NotFound => write!(f, "nobody under Heliostat listens on that address"),
            Self::NotRegistered { port } => {
                write!(f, "port object {port} is not registered by this session")
            }
            Self::Full { resource, limit } => {
                write!(f, "{} is reached: {limit}", resource.name())
            }
            Self::Revoked => write!(f, "the session's grants were revoked"),
        }
    }
}

impl std::error::Error for Refusal {}
