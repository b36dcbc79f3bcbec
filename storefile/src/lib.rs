//! The format of a *store*: areas with names, in extents of a file or disk.
//!
//! A pure state machine. It reads no device and writes none: a change is a list of [`Step`]s, which
//! somebody else performs in order, each only when the one before has completed. After all of them the
//! change is made; after a crash between any two of them, or in the middle of one, the store is as
//! before or as after. The bytes are in docs/store-format.md.
//!
//! ```text
//! | superblock | again | table A | table B | data: extents of areas, free ones, ones to be zeroed |
//!
//! change:  write A, flush, write B, flush              (both hold the same from then on)
//! delete:  change (the area's extents are to be zeroed), zero, flush, change (they are free)
//! ```
//!
//! Free extents read as zero, always. What an area loses is written down as *to be zeroed* in the
//! change that takes it away, and becomes free only after that was done and flushed. So no area ever
//! shows another's bytes, and a crash only makes the zeroing begin again.
#![forbid(unsafe_code)]

mod area;
mod error;
mod extents;
mod fields;
mod identity;
mod step;
mod store;
mod superblock;
mod table;

pub use area::{Area, Kind, Name, NAME_BYTES_MAX};
pub use error::{Part, StoreError};
pub use extents::{Extent, Piece, EXTENTS_MAX};
pub use identity::Identity;
pub use step::Step;
pub use store::{Change, Create, Opened, Store};
pub use superblock::{
    DurableBy, Format, Superblock, AREAS_MAX, BLOCK_BYTES, FORMAT, MAGIC, SUPERBLOCKS_BYTES,
};
pub use table::ZEROING_MAX;
