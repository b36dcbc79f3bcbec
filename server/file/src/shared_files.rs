//! What all server loops share of files: the cache, the numbers of file versions in it, given locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::blocks::Blocks;
use super::open_file::Version;
use super::unlocked::UnlockedOfLoops;
use super::versions::Versions;

/// Shared by all loops of one control plane.
pub struct SharedFiles {
    /// Cached blocks.
    pub blocks: Arc<Blocks>,
    /// Files of which a lock was given back, for each loop.
    pub(crate) unlocked: UnlockedOfLoops,
    versions: Mutex<Versions>,
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
            blocks_filled: AtomicU64::new(0),
        })
    }

    /// The cache's number for a version of a file, the same on every loop.
    pub fn number(&self, version: Version) -> u64 {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).number(version)
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
