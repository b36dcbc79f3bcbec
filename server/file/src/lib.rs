//! Files on the server loops: which way each operation takes, and what is kept in memory.
//!
//! ```text
//! operation -> choose a Way -> cache and reading ahead -> copy -> completion
//!                          \-> the device, or the kernel's page cache -> completion
//! ```
//!
//! The control plane opens files, judges rights and takes leases; what it admits comes here as an
//! [`OpenFile`]. Names are opened by the [`Opener`]'s threads, which the control plane asks. The cache
//! is one for all loops (`blocks`). Deciding is apart from doing: `way`, `verdict`, `cache`, `ahead`,
//! `sets` and `again` know no descriptor and no clock.
#![deny(unsafe_code)]

mod again;
mod ahead;
mod blocks;
mod cache;
mod cached;
mod coming;
mod copying;
mod device;
mod files;
mod flight;
mod lease_word;
mod lock_waits;
mod message;
mod objects;
mod open_file;
mod opener;
mod probe;
mod prober;
mod readers;
mod reason;
mod serve;
mod service;
mod sets;
mod shared_files;
mod source;
mod stats;
mod task;
mod topology;
mod unlocked;
mod verdict;
mod versions;
mod way;

pub use again::Again;
pub use ahead::{Ahead, AHEAD_BLOCKS_MAX};
pub use blocks::Blocks;
pub use cache::{BlockKey, Cache, Found, BLOCK_BYTES};
pub use device::{Basis, Cost, Device, Devices, Measured, DEVICES_MAX};
pub use files::Files;
pub use lease_word::LeaseWord;
pub use lock_waits::LockWaits;
pub use message::{FileEvent, FileOrder, OpenRequest, OpenedBy};
pub use open_file::{OpenFile, Opened, Version, Vouched};
pub use opener::{with_slash, Caller, Judge, Opener};
pub use probe::{ProbeFile, FILE_BYTES_MIN};
pub use prober::Prober;
pub use readers::LATELY_NS as FOLLOW_NS;
pub use reason::WayReason;
pub use sets::HEAD_BLOCKS;
pub use shared_files::SharedFiles;
pub use stats::{FileStats, SMALL_BYTES};
pub use task::{Change, Denial, Made, Refusal, Task};
pub use unlocked::Inode;
pub use verdict::SizeTimes;
pub use way::{
    choose, threshold, Choice, Load, Question, COPYING_FROM, DIRECT_FROM, DIRECT_FROM_MAX,
    DIRECT_FROM_MIN, FULL_FROM, NEVER,
};

#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod properties;
