//! Heliostat for programs in Rust: what a program does itself, and not what is done for it.
//!
//! TCP streams and cached files of unmodified programs need no library: `heliostat run -- PROGRAM`
//! catches them below libc. This one is for programs that take part:
//!
//! - [`snapshot`] publishes consistent versions of live memory, and reads those of other programs;
//!   [`snapshot::queue`] hands items to other programs where they were written.
//! - [`file`] has files read and written by the control plane's server loops, in batches.
//! - [`memory`] has bytes with a name and rights, which other programs read and write.
//! - [`lock`] has locks, semaphores and barriers that programs share by name.
//! - [`log`] keeps entries in a file or an area, durable when it says so, and has queues of them.
//! - [`cluster`] tells which other nodes there are.
//! - [`store`] has areas of durable storage, and logs in them.
//! - [`rpc`] has functions of other programs called, and own ones served.
//! - [`control`] says where the control plane is, for whoever wants names, files or memory.
//! - [`ring`] is what is below: bytes and order between two processes that know each other.
//!
//! Versions by name: one program publishes, any other process of its user reads.
//!
//! ```no_run
//! use heliostat::control;
//! use heliostat::snapshot::{attach, publish_as, LiveMemory, Region, Settings};
//!
//! // The producer.
//! control::configure_as_usual("simulation");
//! let mut heat = vec![0u8; 1 << 20];
//! // SAFETY: `heat` outlives the region.
//! let memory = unsafe { LiveMemory::new(heat.as_ptr() as usize, heat.len()) };
//! let mut region = publish_as("heat", Region::new(memory, Settings::default())?)?;
//! heat[77] = 1;
//! region.publish()?;
//!
//! // Another process.
//! control::configure_as_usual("viewer");
//! let version = attach("heat")?.latest()?;
//! let mut byte = [0];
//! version.read(77, &mut byte)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod cluster;
pub mod control;
pub mod file;
pub mod lock;
pub mod log;
pub mod memory;
pub mod rpc;
pub mod snapshot;
pub mod store;

pub use heliostat_ring as ring;
