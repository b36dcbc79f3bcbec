//! A persistent log, and a queue, in an area of a block device.
//!
//! ```text
//! append --> memory --batch, durable write--> device        acknowledged in order, never before
//! read   <------------- entries ------------- device        each checked, none skipped
//! open   <-- header, then entries behind its checkpoint     cuts a torn tail, reports damage
//! ```
//!
//! What lies in memory is what lies on the device; the bytes are in docs/log-format.md. Whoever waits
//! for an append drives the device, so a log has no thread, unless somebody starts a [`DriverThread`]
//! for callbacks and futures. The device is locked by nobody here: two openings of one area at once
//! destroy it; a [`LogReader`] reads beside one.
//!
//! ```
//! use heliostat_backend_block::MemoryDevice;
//! use heliostat_backend_log::{Area, Log, Options};
//!
//! let device = Box::new(MemoryDevice::new(1 << 20));
//! let area = Area { offset: 0, bytes: 1 << 20 };
//! let log = Log::create(device, area, Options::default())?;
//! log.append_sync(b"first")?;
//! let second = log.append(b"second")?; // on its way
//! second.wait()?; // durable
//! let found: Result<Vec<_>, _> = log.read().collect();
//! assert_eq!(found?[1].payload, b"second");
//! log.trim(second.position())?;
//! log.close()?;
//! # Ok::<(), heliostat_backend_log::LogError>(())
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod area;
mod beside;
mod channel;
mod core;
mod driver;
mod error;
pub mod format;
mod log;
mod lookahead;
mod memory;
mod mutant;
mod notify;
mod options;
mod pace;
mod queue;
mod reader;
mod recovery;
mod reservation;
mod shared;
mod space;
mod thread;
mod waiting;

#[cfg(all(test, not(loom)))]
#[path = "tests/mod.rs"]
mod tests;

pub use area::Area;
pub use beside::LogReader;
pub use error::LogError;
pub use format::Position;
pub use log::Log;
pub use options::{Options, WINDOW_BYTES};
pub use queue::{Item, Queue};
pub use reader::{Entry, Reader};
pub use reservation::{Appended, Reservation};
pub use thread::DriverThread;
