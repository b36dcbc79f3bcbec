//! The registry that one node keeps for the others: the node's end, on its node's thread, and theirs.
//!
//! ```text
//! Remote: begin --call--> Host: the shared store --> answer --> Event::Ended
//!         watch --call--> Host: waits until something changes --> changes --> the next call
//! ```
//! Service 9 between nodes. The records are in memory ([`SharedStore`](heliostat_backend_registry::SharedStore))
//! and end with their node's control plane. It leaves to others what records mean.
#![forbid(unsafe_code)]

mod host;
mod record;
mod remote;
mod take;

pub use heliostat_server_node::header::REGISTRY as SERVICE;
pub use host::{Host, HostOrder};
pub use remote::Remote;
