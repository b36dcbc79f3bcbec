//! The page by which a worker's stub tells its load. All words are foreign to the control plane.
//!
//! ```text
//!  0 "HLOD"  4 version u32         written by the control plane, once
//! 64 closed u64                    connections taken from the queue that have ended since
//! 72 weight u32                    load beside connections, as the worker likes; 0 unless it says so
//! ```

/// Bytes of the page.
pub const BYTES: usize = 4096;
/// What it begins with.
pub const MAGIC: u32 = u32::from_le_bytes(*b"HLOD");
/// Its version.
pub const VERSION: u32 = 1;
/// Place of the version.
pub const AT_VERSION: usize = 4;
/// Place of the number of connections that have ended.
pub const AT_CLOSED: usize = 64;
/// Place of the load beside connections.
pub const AT_WEIGHT: usize = 72;
/// More load than this is not believed: it would only make a worker last among all.
pub const WEIGHT_MAX: u32 = 1 << 20;
