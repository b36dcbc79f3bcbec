//! What all sessions of a server loop share: the io_uring, the cache and its memory, the counters.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::uring::{Manner, NotPrepared, Range, Uring};
use heliostat_service_file::delegated::{BlockKey, Cache, BLOCK_BYTES};

use super::counts::Counts;
use super::file::{OpenFile, Version, Vouched};
use super::message::News;
use crate::memory::LeaseWord;

/// Requests that go to the kernel in one call.
const ENTRIES: u32 = 256;
/// Requests under way: each session's bell, the inbox, and what the device has.
const UNDER_WAY_MAX: u32 = 2048;
/// Versions of files that are remembered; beyond it all are forgotten, and read again.
const VERSIONS_MAX: usize = 4096;

/// An operation of a session, as the parts of the loop name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// The session's place in the loop.
    pub seat: ObjectId,
    /// The operation.
    pub operation: ObjectId,
}

/// What a completion of the ring is for.
#[derive(Clone, Copy)]
pub enum Aim {
    /// Bytes of an operation, or its fsync.
    Transfer(Who),
    /// A block of the cache.
    Fill { place: u32, word: LeaseWord },
    /// A parked session rang.
    Bell(ObjectId),
    /// The control plane has sent an order.
    Inbox,
}

/// The shared parts.
pub struct Engine {
    /// Requests to the kernel.
    pub uring: Uring<Aim>,
    /// Which blocks lie where.
    pub cache: Cache<Who>,
    /// Their bytes.
    pub arena: Arc<SharedMapping>,
    /// What was done.
    pub counts: Arc<Counts>,
    /// Requests that the kernel has for a file.
    pub flying: usize,
    /// About what time it is.
    pub now_ns: u64,
    versions: HashMap<Version, u32>,
    versions_ever: u32,
    news: Sender<News>,
    bell: Arc<OwnedFd>,
    fill_manner: Manner,
}

impl Engine {
    /// The parts for a cache of `cache_bytes`; for the thread that calls this.
    pub fn create(
        cache_bytes: u64,
        counts: Arc<Counts>,
        (news, bell): (Sender<News>, Arc<OwnedFd>),
    ) -> std::io::Result<Engine> {
        let blocks = u32::try_from(cache_bytes / BLOCK_BYTES).unwrap_or(u32::MAX).max(1);
        let bytes = blocks as usize * BLOCK_BYTES as usize;
        // Pages exist once a block was put there.
        let (_fd, arena) =
            SharedMapping::create(c"heliostat-cache", bytes).map_err(std::io::Error::other)?;
        Ok(Engine {
            uring: Uring::create(ENTRIES, UNDER_WAY_MAX)?,
            cache: Cache::new(blocks),
            arena: Arc::new(arena),
            counts,
            flying: 0,
            now_ns: 0,
            versions: HashMap::new(),
            versions_ever: 0,
            news,
            bell,
            fill_manner: Manner::Uncached,
        })
    }

    /// Tells the control plane something.
    pub fn tell(&self, news: News) {
        // Where nobody listens any more the process is ending.
        let _ = self.news.send(news);
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// The cache's number for a version of a file.
    pub fn number(&mut self, version: Version) -> u32 {
        if let Some(number) = self.versions.get(&version) {
            return *number;
        }
        if self.versions.len() >= VERSIONS_MAX {
            self.versions.clear();
        }
        self.versions_ever = self.versions_ever.wrapping_add(1);
        self.versions.insert(version, self.versions_ever);
        self.versions_ever
    }

    /// Begins to read an absent block of a file under a lease; false when there is no room.
    pub fn fill(&mut self, file: &OpenFile, lease: Vouched, key: BlockKey) -> bool {
        let start = key.block * BLOCK_BYTES;
        if start >= lease.version.size || !self.uring.has_room() {
            return false;
        }
        let Some(place) = self.cache.begin(key) else { return false };
        let len = BLOCK_BYTES.min(lease.version.size - start) as usize;
        let into = [Range { offset: place as usize * BLOCK_BYTES as usize, len }];
        let aim = Aim::Fill { place, word: lease.word };
        let (into, manner) = ((&self.arena, &into[..]), self.fill_manner);
        let begun = self.uring.read(aim, &file.buffered, start, into, manner);
        match begun {
            Ok(_) => self.flying += 1,
            Err(_) => drop(self.cache.failed(place)),
        }
        begun.is_ok()
    }

    /// A block's read has completed; answers who waited for it.
    ///
    /// It counts only if the lease still holds: then nobody has changed the file since it began.
    pub fn filled(&mut self, place: u32, word: LeaseWord, result: i32) -> Vec<Who> {
        if result == -libc::EOPNOTSUPP {
            self.fill_manner = Manner::Plain;
        }
        let waiters = match u32::try_from(result) {
            Ok(bytes) if bytes > 0 && word.is_active() => {
                Counts::add(&self.counts.blocks_filled, 1);
                self.cache.filled(place, bytes)
            }
            _ => self.cache.failed(place),
        };
        let kept = self.cache.len() as u64;
        self.counts.blocks_kept.store(kept, std::sync::atomic::Ordering::Relaxed);
        waiters
    }
}

/// Whether a request that was not prepared should be tried again.
pub fn is_full(error: &NotPrepared) -> bool {
    matches!(error, NotPrepared::Full)
}
