//! Shared listeners: one listening address whose connections are given to many workers.
//!
//! A *listener* is the address, its listening sockets and its rule. A *worker* is who takes connections
//! from it: one process, or processes that share one queue. The *queue* of a worker is a pair of unix
//! sockets: each connection is one record with one descriptor. `docs/listeners.md` tells the whole.

pub mod handed;
pub mod limits;
pub mod page;
pub mod reply;
pub mod request;
pub mod rule;

/// Names the ports that a program shares: `PORT[:RULE],...`.
pub const SHARE_VARIABLE: &str = "HELIOSTAT_SHARE";

pub use handed::Handed;
pub use reply::ListenerReply;
pub use request::ListenerRequest;
pub use rule::Rule;
