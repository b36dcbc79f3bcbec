//! What all server loops share of files: the cache, the numbers of file versions in it, given locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Holder;

use super::blocks::Blocks;
use super::device::Devices;
use super::open_file::Version;
use super::readers::Readers;
use super::sets::Sets;
use super::source::Source;
use super::unlocked::UnlockedOfLoops;
use super::versions::Versions;

/// Shared by all loops of one control plane.
pub struct SharedFiles {
    /// What is known of devices.
    pub devices: Devices,
    /// Cached blocks.
    pub blocks: Arc<Blocks>,
    /// Files of which a lock was given back, for each loop.
    pub(crate) unlocked: UnlockedOfLoops,
    versions: Mutex<Versions>,
    readers: Mutex<Readers>,
    sets: Mutex<Sets<Source>>,
    blocks_filled: AtomicU64,
    blocks_ahead: AtomicU64,
    blocks_found: AtomicU64,
    /// Percent of each loop's time that its copies take.
    copying: Box<[AtomicU64]>,
}

impl SharedFiles {
    /// An empty cache of `cache_bytes` for so many loops. `direct_from` is every device's threshold, 0
    /// for never; measured if nothing is said.
    ///
    /// # Errors
    /// The kernel has no memory for it.
    pub fn create(
        cache_bytes: u64,
        loops: usize,
        direct_from: Option<u64>,
    ) -> std::io::Result<SharedFiles> {
        Ok(SharedFiles {
            devices: Devices::new(direct_from),
            blocks: Arc::new(Blocks::create(cache_bytes, loops)?),
            unlocked: UnlockedOfLoops::new(loops),
            versions: Mutex::default(),
            readers: Mutex::new(Readers::new(cache_bytes)),
            sets: Mutex::default(),
            blocks_filled: AtomicU64::new(0),
            blocks_ahead: AtomicU64::new(0),
            blocks_found: AtomicU64::new(0),
            copying: (0..loops).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// The cache's number for a version of a file, the same on every loop.
    pub fn number(&self, version: Version) -> u64 {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).number(version)
    }

    /// Notes a large read of a version by a session of a holder's; whether another one reads it
    /// behind, or a file before it from which it comes to this one.
    pub(crate) fn is_followed(
        &self,
        file: u64,
        (holder, session): (Holder, ObjectId),
        range: (u64, u64),
        now_ns: u64,
    ) -> bool {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.note(file, session, range, now_ns) {
            return true;
        }
        let Some(room) = readers.span().checked_sub(range.0) else { return false };
        let before = self.sets().before(holder, file);
        let mut near = before.into_iter().filter(|(_, between)| *between <= room);
        near.any(|(file, _)| readers.is_read(file, session, now_ns))
    }

    /// Which files are read after which.
    pub(crate) fn sets(&self) -> MutexGuard<'_, Sets<Source>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far behind another a session may read for both to be served by the cache.
    pub fn follow_bytes(&self) -> u64 {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).span()
    }

    /// Blocks that were read into the cache.
    pub fn blocks_filled(&self) -> u64 {
        self.blocks_filled.load(Relaxed)
    }

    /// Blocks of these that were read ahead of a session that was to come to their file, and those
    /// that were there when one came.
    pub fn blocks_ahead(&self) -> (u64, u64) {
        (self.blocks_ahead.load(Relaxed), self.blocks_found.load(Relaxed))
    }

    /// Percent of a loop's time that its copies took lately.
    pub fn copying(&self, number: usize) -> u64 {
        self.copying.get(number).map_or(0, |percent| percent.load(Relaxed))
    }

    /// Tells how much of a loop's time its copies take.
    pub(crate) fn tell_copying(&self, number: usize, percent: u64) {
        if let Some(told) = self.copying.get(number) {
            told.store(percent, Relaxed);
        }
    }

    /// Counts blocks that are read ahead of a session that comes to their file.
    pub(crate) fn count_ahead(&self, blocks: u64) {
        self.blocks_ahead.fetch_add(blocks, Relaxed);
    }

    /// Counts those of them that were there when one came.
    pub(crate) fn count_found(&self, blocks: u64) {
        self.blocks_found.fetch_add(blocks, Relaxed);
    }

    /// Counts a block that was read into the cache.
    pub(crate) fn count_filled(&self) {
        self.blocks_filled.fetch_add(1, Relaxed);
    }
}
