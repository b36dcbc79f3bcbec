//! What all server loops share of files: the cache and the numbers of file versions in it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::blocks::Blocks;
use super::open_file::Version;

/// Versions of files that are remembered; beyond it all are forgotten, and read again.
const VERSIONS_MAX: usize = 4096;

/// Shared by all loops of one control plane.
pub struct Shared {
    /// Cached blocks.
    pub blocks: Arc<Blocks>,
    versions: Mutex<(HashMap<Version, u64>, u64)>,
    blocks_filled: AtomicU64,
}

impl Shared {
    /// An empty cache of `cache_bytes` for so many loops.
    ///
    /// # Errors
    /// The kernel has no memory for it.
    pub fn create(cache_bytes: u64, loops: usize) -> std::io::Result<Shared> {
        Ok(Shared {
            blocks: Arc::new(Blocks::create(cache_bytes, loops)?),
            versions: Mutex::default(),
            blocks_filled: AtomicU64::new(0),
        })
    }

    /// The cache's number for a version of a file, the same on every loop.
    pub fn number(&self, version: Version) -> u64 {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let (numbers, last) = &mut *versions;
        if let Some(number) = numbers.get(&version) {
            return *number;
        }
        if numbers.len() >= VERSIONS_MAX {
            numbers.clear();
        }
        *last += 1;
        numbers.insert(version, *last);
        *last
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_one_number_and_another_another() {
        let shared = Shared::create(1 << 20, 1).unwrap();
        let version = Version { device: 1, inode: 2, size: 3, changed: (4, 5), only_under: None };
        let other = Version { size: 4, ..version };
        assert_eq!(shared.number(version), shared.number(version));
        assert_ne!(shared.number(version), shared.number(other));
    }
}
