//! Consistent copy-on-write versions of live memory, for any other process that may attach.
//!
//! The producer goes on writing its own memory; `Region::publish` makes a version of it at a
//! moment when nobody writes. A version is a table of colours over a pool that never changes under
//! a reader: only chunks that changed get another slot, and in a slot only pages that changed
//! since it was filled are copied. Consumers map pool and table read-only and pin what they read.
//! Memory and protocol: docs/snapshots.md.

mod consumer;
mod engine;
mod ledger;
mod pool;
mod region;
mod tracked;

pub use consumer::{AttachError, Attachment, Version, View};
pub use engine::{Declared, Engine, Whole};
pub use ledger::PAGE_BYTES;
pub use pool::PoolError;
pub use region::{EngineKind, Metrics, Policy, PublishError, Published, Region, Settings};
pub use tracked::Tracked;
