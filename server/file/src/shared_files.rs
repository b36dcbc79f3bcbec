//! What all server loops share of files: the cache, the numbers of file versions in it, given locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use heliostat_abi::name::ObjectId;

use super::blocks::Blocks;
use super::open_file::Version;
use super::readers::Readers;
use super::unlocked::UnlockedOfLoops;
use super::versions::Versions;

/// Shared by all loops of one control plane.
pub struct SharedFiles {
    /// Cached blocks.
    pub blocks: Arc<Blocks>,
    /// Files of which a lock was given back, for each loop.
    pub(crate) unlocked: UnlockedOfLoops,
    versions: Mutex<Versions>,
    readers: Mutex<Readers>,
    blocks_filled: AtomicU64,
}

impl SharedFiles {
    /// An empty cache of `cache_bytes` for so many loops.
    ///
    /// # Errors
    /// The kernel has no memory for it.
    pub fn create(cache_bytes: u64, loops: usize) -> std::io::Result<SharedFiles> {
        Ok(SharedFiles {
            blocks: Arc::new(Blocks::create(cache_bytes, loops)?),
            unlocked: UnlockedOfLoops::new(loops),
            versions: Mutex::default(),
            readers: Mutex::new(Readers::new(cache_bytes)),
            blocks_filled: AtomicU64::new(0),
        })
    }

    /// The cache's number for a version of a file, the same on every loop.
    pub fn number(&self, version: Version) -> u64 {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).number(version)
    }

    /// Notes a large read of a version by a session; whether another one reads it behind.
    pub(crate) fn is_followed(
        &self,
        file: u64,
        session: ObjectId,
        range: (u64, u64),
        now_ns: u64,
    ) -> bool {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.note(file, session, range, now_ns)
    }

    /// How far behind another a session may read for both to be served by the cache.
    pub fn follow_bytes(&self) -> u64 {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).span()
    }

    /// Blocks that were read into the cache.
    pub fn blocks_filled(&self) -> u64 {
        self.blocks_filled.load(Relaxed)
    }

    /// Counts a block that was read into the cache.
    pub(crate) fn count_filled(&self) {
        self.blocks_filled.fetch_add(1, Relaxed);
    }
}
