//! Bytes and order between two processes over shared memory, and nothing about their meaning.
//!
//! ```text
//!  producer                          ring (one memfd)                          consumer
//!  reserve -> fill -> commit   ==>   [control page][data | data again]   ==>   take -> read -> release
//!                              <==   tail: what may be written again     <==
//!  doorbells lie in the control page; a side rings only for a peer that has said it sleeps
//! ```
//!
//! - [`RingMemory`] creates or attaches the shared memory; [`spsc`] and [`mpmc`] are its ends.
//! - [`doorbell`] is how one side waits for the other, [`probe`] how it notices that there is none.
//! - [`window`] is payload memory outside the ring; [`copy`] moves bytes by the fitting engine.
//! - [`area`] is memory in pieces that is reached as if it were one, [`region_page`] says whether it
//!   may be, and [`presence`] who does, so that it can be moved. [`rows`] are a thread's own counters
//!   for that, and [`replaced`] is a value that threads read meanwhile.
//! - [`stream`] is an ordered byte ring for sockets, with a layout of its own.
//! - [`parking`] lets elements stay with a slow consumer without blocking the ring.
//! - [`pins`] keeps published versions of a snapshot region while consumers read them.
//! - [`queue`] hands items to consumers that read them where they were written.
//! - [`call_line`] is one call at a time, asked and answered in a cache line.
//! - [`request`] is system calls that threads of one process ask executors for.
//! - [`turn`] and [`members`] let several processes produce into one ring.
//! - [`offset`] is where a file is read next that its process and the kernel read by turns.
//! - [`slot`] is how a client and an acceptor agree on the use of a channel's slot.
//!
//! Everything read from the other side is foreign: it passes one checked constructor in
//! [`position`] and comes out as a value or as [`Corrupt`], which names the side at fault. The
//! layout and the protocol, byte by byte, are in `docs/ring.md`.
//!
//! Path rule: `spsc`, `mpmc` and `combine` are *hot* (no system call unless a peer sleeps, no
//! allocation, no formatting); `memory`, `window::create` and `parking` are *cold*.
#![warn(missing_docs)]

pub mod area;
pub mod call_line;
pub mod combine;
pub mod copy;
pub mod doorbell;
pub mod error;
pub mod gate;
pub mod layout;
pub mod members;
pub mod memory;
pub mod mpmc;
pub mod offset;
pub mod parking;
pub mod pins;
pub mod position;
pub mod presence;
pub mod probe;
pub mod queue;
pub mod region_page;
pub mod replaced;
pub mod request;
pub mod rows;
pub mod slot;
pub mod spsc;
pub mod stream;
mod sync;
pub mod turn;
pub mod window;

pub use area::Area;
pub use error::{Corrupt, Fault, ReserveError, RingError, Side, TakeError, WaitError};
pub use memory::{Memory, RingMemory};
pub use mpmc::{Consumer, JointProducer, Producer, PushError};
pub use spsc::{Refresh, SpscConsumer, SpscProducer};

#[cfg(all(loom, test))]
mod models;
