//! Consistent copy-on-write versions of live memory, for any other process that may attach.
//!
//! The producer goes on writing its own memory; `Region::publish` makes a version of it at a
//! moment when nobody writes. A version is a table of colours over a pool that never changes under
//! a reader: only chunks that changed get another slot, and in a slot only pages that changed
//! since it was filled are copied. Consumers map pool and table read-only and pin what they read.
//! Memory and protocol: docs/snapshots.md.
//!
//! ```
//! use heliostat_backend_pages::live::LiveMemory;
//! use heliostat_stub_snapshot::{Attachment, Region, Settings};
//!
//! let mut heat = vec![0u8; 1 << 20];
//! // SAFETY: `heat` outlives the region.
//! let memory = unsafe { LiveMemory::new(heat.as_ptr() as usize, heat.len()) };
//! let mut region = Region::new(memory, Settings::default())?;
//!
//! // In another process; pool, table and the page of pins travel as descriptors.
//! let (table, pool) = region.descriptors();
//! let (table, pool) = (table.duplicate()?, pool.duplicate()?);
//! let reader = Attachment::new(&table, pool, |pins| region.admit(pins).map(drop))??;
//!
//! heat[77] = 1;
//! region.publish()?;
//! let version = reader.latest()?;
//! heat[77] = 2; // the producer goes on; the version does not change
//! let mut byte = [0];
//! version.read(77, &mut byte)?;
//! assert_eq!(byte[0], 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod ahead;
mod alive;
mod consumer;
mod content;
mod copied;
mod door;
mod engine;
mod guests;
mod ledger;
mod named;
mod naming;
mod outcome;
mod outside;
mod paused;
mod pool;
pub mod queue;
mod region;
mod remapped;
mod settings;
mod setup;
mod source;
pub mod threads;
mod tracked;
mod version;
mod view;
mod walk;

pub use ahead::Ahead;
pub use consumer::Attachment;
pub use engine::{Declared, Engine, Whole};
pub use guests::ConsumerHandle;
pub use ledger::PAGE_BYTES;
pub use named::{attach, attach_of, publish_as, NamedRegion};
pub use naming::NamedError;
pub use outcome::{Metrics, PublishError, Published, RegionError};
pub use outside::{Outside, OutsideError, Part, Round, Tracking};
pub use pool::PoolError;
pub use region::Region;
pub use settings::{EngineKind, Placement, Policy, Settings};
pub use source::{Source, SourceError};
pub use tracked::Tracked;
pub use version::{AttachError, Version};
pub use view::View;

pub use heliostat_ring::pins::PinError;
