//! Memory regions on the server loops: for who may not map them, or not all of their arenas.
//!
//! ```text
//! operation -> handle (whose, which region, rights) -> region's word -> bounds -> copy -> completion
//!              |                                         | moving
//!              v on another node (elsewhere)             v
//!            sent there, ended by its answer           wait for where it is then
//! ```
//!
//! The control plane decides who holds what; what it says of it comes here as orders, and an operation
//! meets nothing but what stands in this loop's own tables. Nothing is touched between two turns, so
//! that what an order takes away is not in use when the order has been carried out.
#![forbid(unsafe_code)]

mod elsewhere;
mod handles;
mod held;
mod memories;
mod message;
mod peer_holds;
mod serve;
mod service;
mod there;
mod traffic;
mod ways;
mod work;

pub use handles::Handles;
pub use memories::Memories;
pub use message::{Hold, MemoryEvent, MemoryOrder};
pub use peer_holds::{PeerHolds, PeerMemory};
pub use there::{is_replicated, replicated_link, Answer, NoAnswer, Replicated, There};
