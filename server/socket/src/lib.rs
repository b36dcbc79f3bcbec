//! TCP sockets of delegated operations, on a server loop.
//!
//! ```text
//! operation -> the system call, which never waits -> its answer
//!                | EAGAIN
//!                '-> in line at the socket -> an edge in the loop's epoll set -> another turn
//! Accept -> in line at the listener, which all loops share -> whose turn it is -> a new socket
//!           (by content: the first bytes are awaited in between, by this loop)
//! ```
//!
//! Sockets are the loop's, non-blocking, and watched for edges from their birth to their end: an
//! operation tries first, and what comes after that is an edge. So a peer that is slow, half closed or
//! gone holds up the operations on its own connection, and nobody else's.
//!
//! Bytes are copied once more here, between the kernel's buffer and the window: no Rust reference and no
//! system call of this crate touches memory that a program may change meanwhile.
#![forbid(unsafe_code)]

mod accept;
mod address;
mod arrival;
mod budget;
mod guest;
mod held;
mod lines;
mod listener;
mod message;
mod open;
mod peek;
mod poll;
mod polled;
mod refusals;
mod serve;
mod service;
mod socket;
mod sockets;
mod transfer;
mod wait;
mod watch;

pub use budget::{Budget, Slot};
pub use guest::{Guest, Judge};
pub use listener::{ListenerMembers, Listeners};
pub use message::{Arrived, SocketEvent, SocketOrder};
pub use refusals::Refusals;
pub use sockets::Sockets;
pub use watch::Watch;
