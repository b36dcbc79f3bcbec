//! The node's thread, as services see it: calls to other nodes, and services that answer theirs.
//!
//! ```text
//! daemon ----- Nodes: join, leave, call, reply --+                       +--> other nodes
//! server loops - Caller: call, with a sink ------+--> the node's thread -+
//! services ---- Orders<P>: their own orders -----+        |              +<-- other nodes
//!                                                          v
//!      a request: service number --> hosted here (Peers) --> answered at once
//!                                \-> nobody, or forwarded --> NodesEvent::Request --> daemon
//! ```
//!
//! A request begins with the number of its service (4 bytes, [`header`]); the rest of the header and
//! the payload are the service's own, and foreign bytes. Calls of one thread to one node are sent in
//! the order in which they were made. Nothing here waits: what finds no room in a peer's window is kept,
//! up to a limit, and each call ends exactly once, at its deadline at the latest.
#![forbid(unsafe_code)]

mod call;
mod caller;
mod event;
mod gate;
pub mod header;
mod hosted;
pub mod limits;
mod nodes;
mod outgoing;
mod peer;
mod place;
mod quality;
mod service;
mod thread;
mod turns;

pub use call::{NodeCall, NodeReply, Outcome};
pub use caller::Caller;
pub use event::{JoinError, NodesEvent, NodesEvents};
pub use hosted::Orders;
pub use nodes::{Nodes, NotStarted, Replies};
pub use quality::backoff::Pace;
pub use quality::{BackOff, ClassCounts, Quality, Shares, WayState};
pub use service::{Asker, PeerNode, Peers, Served};

pub use heliostat_backend_transport::address::Address;
pub use heliostat_backend_transport::error::{CallError, CallFailure, Effect, LostCause};
pub use heliostat_backend_transport::identity::{Identity, NodeId, Secret};
pub use heliostat_backend_transport::limits::{NodeLimits, PAYLOAD_BYTES_MAX};
pub use heliostat_backend_transport::transport::{LinkId, Transport};
pub use heliostat_backend_transport::AskId;
