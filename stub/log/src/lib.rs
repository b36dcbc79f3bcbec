//! Logs and queues that are durable when they say so, in a file or in an area of a store.
//!
//! ```text
//! append --> memory --> device        durable: a wait, a future, a callback, a descriptor
//! open   <-- whatever happened        what was acknowledged is there, a torn tail is not
//! ```
//!
//! The log itself is `backend/log`. This crate knows where one may lie ([`Place`]), who drives it while
//! nobody waits, what may be done beside its writer ([`LogReader`]), and what kind of error something is
//! ([`Kind`]), so that programs in every language hear the same. `docs/log.md` tells the whole.
//!
//! ```
//! use heliostat_stub_log::Log;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("orders.log");
//! let log = Log::create(path.as_path(), 1 << 20)?;
//! log.append_sync(b"first")?; // durable when it returns
//! let second = log.append(b"second")?; // on its way
//! let position = second.wait()?;
//! let entries: Result<Vec<_>, _> = log.read().collect();
//! assert_eq!(entries?[1].payload, b"second");
//! log.trim(position)?; // the first one goes
//! log.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod area;
mod change;
mod error;
mod log;
mod make;
mod place;
mod queue;
mod reader;
mod undriven;

pub use error::{Kind, OpenError, Why};
pub use heliostat_backend_log::format::{Header, HeaderError};
pub use heliostat_backend_log::{
    Appended, Entry, Item, LogError, Options, Position, Reader, Reservation, WINDOW_BYTES,
};
pub use heliostat_base::event::Event;
pub use log::Log;
pub use place::Place;
pub use queue::Queue;
pub use reader::LogReader;
pub use undriven::UndrivenLog;
