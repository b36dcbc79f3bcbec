//! Logs and queues that are durable when they say so, in a file or in an area of a store.
//!
//! No control plane is needed for a file. `docs/log.md` tells what is promised and what it costs.
//!
//! ```no_run
//! use heliostat::log::{LogReader, Queue};
//!
//! let queue = Queue::open_or_create("jobs.queue", 64 << 20)?;
//! queue.push(b"resize picture 7")?.wait()?; // durable
//! if let Some(item) = queue.pop()? {
//!     println!("{}", String::from_utf8_lossy(&item.payload));
//!     queue.acknowledge_sync(item.position)?; // never again
//! }
//!
//! // Another process, meanwhile.
//! let mut reader = LogReader::open("jobs.queue")?;
//! while let Some(entry) = reader.read()? {
//!     println!("{}: {} bytes", entry.position, entry.payload.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use heliostat_stub_log::*;
