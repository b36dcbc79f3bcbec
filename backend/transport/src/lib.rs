//! Messages between nodes: a thin interface of transports, and what holds over each of them.
//!
//! ```text
//! driver      a thread that owns a node, sleeps on a descriptor, and lets other threads ask
//! node        handshake, calls and answers, signs of life, windows, deadlines: the same for all
//! transport   the interface: links that carry messages in order
//! tcp         our own framing over TCP, for any machine      simulated   a network in one process
//! ```
//!
//! UCX is a transport in a crate of its own. What the messages mean is the program's matter above.
//! The bytes on the wire, the states and the trust are on one page, `docs/transport.md`.
#![forbid(unsafe_code)]

pub mod address;
mod asks;
mod calls;
pub mod driver;
pub mod error;
pub mod frame;
pub mod greeting;
pub mod handshake;
pub mod identity;
pub mod limits;
pub mod node;
pub mod simulated;
mod slots;
pub mod tcp;
pub mod transport;
mod window;

pub use asks::AskId;
pub use window::WindowFault;
