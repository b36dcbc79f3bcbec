//! What the thread is told at its start, what is asked of it, and what it says.

use std::sync::{Arc, Mutex};

use heliostat_service_replica::{Fault, Member, Placement};

/// What a node gives to replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Replicas at once.
    pub replicas: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Those of one user.
    pub bytes_per_user: u64,
    /// Regions that this node's programs have found.
    pub found: usize,
}

/// What is here, for people: as it was a tick ago.
pub(crate) type Shown = Arc<Mutex<Vec<ReplicaStatus>>>;

/// What the thread has to know.
pub struct Starting {
    /// This node, and this life of it.
    pub me: Member,
    /// Who keeps the records.
    pub records: Records,
    /// What this node gives.
    pub limits: Limits,
    /// Whether other nodes are believed which of their users asks.
    pub believes_users: bool,
}

/// Who keeps the records of regions.
pub enum Records {
    /// One node of the cluster, in its memory.
    Keeper(u64),
    /// A registry, which the daemon asks; [`Replicas::record`] follows once for each.
    Registry(Box<dyn Fn(AskRecord) + Send>),
}

/// What a registry is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskRecord {
    /// By which number the answer comes.
    pub token: u64,
    /// Of which key.
    pub key: String,
    /// To be written where it has this revision, 0 for none; empty to be deleted. Else it is read.
    pub write: Option<(u64, Vec<u8>)>,
}

/// A region that is to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// Under which key.
    pub key: String,
    /// Whose.
    pub owner: u32,
    /// What others may, as bits of rights.
    pub others: u32,
    /// How long.
    pub bytes: u64,
    /// How many replicas, this node's among them.
    pub wanted: u32,
    /// On which other nodes; none: any that are joined.
    pub nodes: Vec<u64>,
}

/// A region that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Where it lies.
    pub placement: Placement,
}

/// Why a region is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// None has the name.
    NotFound,
    /// The keeper of records cannot be reached, or has forgotten them.
    NoKeeper,
    /// It is not made.
    Fault(Fault),
    /// Fewer nodes are joined than are needed.
    TooFew {
        /// How many there are.
        found: usize,
    },
    /// This node has no room.
    Full(u64),
}

/// Why it is not altered who may use a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAltered {
    /// Nobody knows whether it is: its primary is lost, or another one meanwhile.
    Unknown,
    /// Its record has no room for more.
    Full(u64),
    /// The user may not.
    Denied,
}

/// One replica on this node, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaStatus {
    /// The key.
    pub key: String,
    /// Where the region lies, as far as this node knows.
    pub placement: Placement,
    /// This node's is the primary.
    pub is_primary: bool,
    /// The last entry, and the last that all replicas have.
    pub entries: (u64, u64),
}
