//! Files of snapshot versions (`*.hsnap`): sparse, compressed, incremental, checked.
//!
//! A file holds one version of a region, whole or as what differs from the version in another
//! file, its *base*. Every byte of a file is covered by a check, so that what was cut or changed is
//! refused. The layout is in docs/snapshot-files.md; this crate reads and writes bytes and leaves
//! names, folders and durability to its callers.
//!
//! ```
//! use heliostat_snapfile::{Chain, Header, Packer, SnapFile, Writer};
//!
//! let bytes = vec![7u8; 5000];
//! let header = Header { name: "heat".into(), length: 5000, number: 1, ..Header::default() };
//! let mut writer = Writer::new(Vec::new(), header)?;
//! writer.put(&Packer::new(Some(3))?.pack(0, &bytes, None)?)?;
//! let (file, _written) = writer.finish()?;
//!
//! let mut chain = Chain::of(SnapFile::open(file)?)?;
//! let mut back = vec![0; 5000];
//! chain.read(0, &mut back)?;
//! assert_eq!(back, bytes);
//! # Ok::<(), heliostat_snapfile::FileError>(())
//! ```
#![forbid(unsafe_code)]

mod chain;
mod error;
mod header;
mod index;
mod layout;
mod pack;
mod read;
mod write;

pub use chain::Chain;
pub use error::{FileError, Part};
pub use header::{Base, Header, BASE_NAME_BYTES_MAX, DESCRIPTION_BYTES_MAX, NAME_BYTES_MAX};
pub use index::{Index, PageSet, Record};
pub use layout::{
    chunk_bytes, chunks, Identity, PageHash, CHUNK_BYTES, CHUNK_PAGES, DEPTH_MAX, FORMAT,
    LENGTH_MAX, MAGIC, PAGE_BYTES,
};
pub use pack::{Packed, Packer};
pub use read::{ReadAt, SnapFile};
pub use write::{Writer, Written};
