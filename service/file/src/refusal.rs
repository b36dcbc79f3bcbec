//! Why the file service says no; each value carries the limit or object that decided.

use std::fmt;

use heliostat_abi::name::ObjectId;

/// What there is only so much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// Files under a lease on the node.
    Leases,
    /// Leases of one session.
    LeasesPerSession,
}

impl Resource {
    /// The limit's key in the configuration, or what fixes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leases => "LEASES_MAX, or a quarter of the control plane's RLIMIT_NOFILE,",
            Self::LeasesPerSession => "limits.leases_per_session",
        }
    }
}

/// An ordinary no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its last lease was broken, and the file is left alone for a while.
    Pause {
        /// How much longer.
        left_ns: u64,
    },
    /// The lease is just being taken for another session.
    Taking {
        /// The lease.
        lease: ObjectId,
    },
    /// The lease is over, or not this session's.
    NotHeld {
        /// The object that was named.
        lease: ObjectId,
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
            Self::Pause { left_ns } => {
                write!(f, "its lease was broken, the next is {} ms away", left_ns / 1_000_000)
            }
            Self::Taking { lease } => write!(f, "lease {lease} is just being taken"),
            Self::NotHeld { lease } => write!(f, "lease {lease} is none of this session"),
            Self::Full { resource, limit } => write!(f, "{} is reached: {limit}", resource.name()),
            Self::Revoked => write!(f, "the session's grants were revoked"),
        }
    }
}

impl std::error::Error for Refusal {}
