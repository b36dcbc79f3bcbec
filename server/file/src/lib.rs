//! Files on the server loops: which way each operation takes, and what is kept in memory.
//!
//! ```text
//! operation -> choose a Way -> cache and reading ahead -> copy -> completion
//!                          \-> the device, or the kernel's page cache -> completion
//! ```
//!
//! The control plane opens files, judges rights and takes leases; what it admits comes here as an
//! [`OpenFile`]. Names are opened by the [`Opener`]'s threads, which the control plane asks. The cache
//! is one for all loops (`blocks`). Deciding is apart from doing: `way`, `cache`, `ahead` and `again`
//! know no descriptor and no clock.
#![deny(unsafe_code)]

mod again;
mod ahead;
mod blocks;
mod cache;
mod cached;
mod files;
mod flight;
mod lease_word;
mod lock_waits;
mod message;
mod objects;
mod open_file;
mod opener;
mod readers;
mod serve;
mod service;
mod shared_files;
mod stats;
mod task;
mod unlocked;
mod versions;
mod way;

pub use again::Again;
pub use ahead::{Ahead, AHEAD_BLOCKS_MAX};
pub use blocks::Blocks;
pub use cache::{BlockKey, Cache, Found, BLOCK_BYTES};
pub use files::Files;
pub use lease_word::LeaseWord;
pub use lock_waits::LockWaits;
pub use message::{FileEvent, FileOrder, OpenRequest, OpenedBy};
pub use open_file::{OpenFile, Opened, Version, Vouched};
pub use opener::{with_slash, Caller, Judge, Opener};
pub use readers::LATELY_NS as FOLLOW_NS;
pub use shared_files::SharedFiles;
pub use stats::FileStats;
pub use task::{Change, Denial, Made, Refusal, Task};
pub use unlocked::Inode;
pub use way::{choose, Choice, Question, DIRECT_FROM};

#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod properties;
