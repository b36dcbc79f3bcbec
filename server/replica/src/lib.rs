//! Memory regions that live on several nodes: this node's replicas, and its programs as clients, on one
//! thread.
//!
//! ```text
//! server loops --submit--> thread: client --Operate--> the primary's thread --Append--> backups
//! daemon --make, open, free-->  |  <--joined, lost--      |
//! node's thread --requests----->|                         '--record of the registry, by put-if-revision
//! ```
//! `heliostat_service_replica` decides; here are its messages, its time, and who waits. The thread
//! sleeps unless something comes or waits. It leaves to the daemon who may map a region, and to a
//! keeper ([`keeper`]) what all nodes believe.
#![forbid(unsafe_code)]

mod alter;
mod carry;
mod engine;
mod handle;
mod input;
pub mod keeper;
mod message;
mod peers;
mod records;
mod regions;
mod request;

pub use handle::{Replicas, Submitter};
pub use heliostat_service_replica::{
    Action, Alter, Answered, Failed, Fault, Identity, Member, Placement, OPERATION_BYTES_MAX,
    REPLICAS_MAX,
};
pub use peers::PeerReplicas;
pub use request::{
    AskRecord, Draft, Failure, Limits, NotAltered, Opened, Records, ReplicaStatus, Starting,
};

/// The number of the service between nodes.
pub const SERVICE: u16 = 10;
