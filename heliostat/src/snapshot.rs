//! Consistent versions of live memory, and queues of items, for any other process.
//!
//! The producer goes on writing its own memory, and publishes a version of it at a moment when
//! nobody writes; consumers pin a version and read it for as long as they like. What was not written
//! is not copied. `docs/snapshots.md` tells how, [`queue`] is for programs that write everything in
//! each step.
//!
//! Without a name, table and pool travel as descriptors:
//!
//! ```
//! use heliostat::snapshot::{Attachment, LiveMemory, Region, Settings};
//!
//! let mut heat = vec![0u8; 1 << 20];
//! // SAFETY: `heat` outlives the region.
//! let memory = unsafe { LiveMemory::new(heat.as_ptr() as usize, heat.len()) };
//! let mut region = Region::new(memory, Settings::default())?;
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
//! assert_eq!(byte, [1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use heliostat_backend_pages::live::LiveMemory;
pub use heliostat_stub_snapshot::*;
