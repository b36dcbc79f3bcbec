//! Threads that accept for shared listeners, one for each, and give each connection to a worker.
//!
//! ```text
//! listening sockets --accept--> [peeked] --> Balance (pure) --> queue of a worker --> its accept(2)
//!                                  |            ^   |                 |
//!                       first bytes, plug-in ---'   '-- taken back <--' it died, drains, takes nothing
//! ```
//! A connection has one owner at any time: this thread, a queue, or a worker. What lies in a queue is
//! nobody's who can lose it: the thread keeps a duplicate of the queue's *reading* end, so that a
//! worker's death does not empty it, and receives from it itself what it takes back. The kernel gives a
//! message to one receiver, so that a connection that a worker has taken is never given to another.
//!
//! All that may wait for others has a deadline. What no deadline ends is the kernel's lock of a socket
//! that workers have as well: so each listener has a thread of its own, and nobody waits for that.
#![forbid(unsafe_code)]

mod accept;
mod accepting;
mod arrivals;
mod audit;
mod balancer;
mod closing;
mod hand;
mod held;
mod listener;
mod orders;
pub mod plugin;
mod queue;
mod shares;
mod state;
mod thread;
mod worker;

pub use balancer::{Balancer, Ending, WorkerEnds, THREAD_DESCRIPTORS};
pub use closing::{Closer, Foreign, Owner};
pub use listener::Counts;
pub use orders::ORDERS_MAX;
pub use shares::HeldShares;
pub use state::{ListenerState, WorkerState};

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_ends;
