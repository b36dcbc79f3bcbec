//! What all sessions of a server loop share: its io_uring and counters, and what all loops share.

use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::{Manner, NotPrepared, Range, Uring};
use heliostat_base::mapping::SharedMapping;
use heliostat_service_file::delegated::{BlockKey, BLOCK_BYTES};

use super::blocks::{Blocks, Waiter};
use super::counts::Counts;
use super::file::{OpenFile, Version, Vouched};
use super::loops::Teller;
use super::message::{News, Order};
use super::shared::Shared;
use crate::memory::LeaseWord;

/// Requests that go to the kernel in one call.
const ENTRIES: u32 = 256;
/// Requests under way: each session's bell, the inbox, and what the device has.
const UNDER_WAY_MAX: u32 = 2048;

/// An operation of a session, as the parts of the loop name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// The session's place in the loop.
    pub seat: ObjectId,
    /// The operation.
    pub operation: ObjectId,
}

/// How reads go on that have waited for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GoesOn {
    /// They look again.
    InCache,
    /// It could not be read: looking again would only have it read again, for ever. The kernel reads,
    /// and what it says is told.
    ByKernel,
}

/// What a completion of the ring is for.
#[derive(Clone, Copy)]
pub enum Aim {
    /// Bytes of an operation, or its fsync.
    Transfer(Who),
    /// A block of the cache.
    Fill { place: u32, word: LeaseWord, manner: Manner },
    /// A parked session rang.
    Bell(ObjectId),
    /// The control plane has sent an order.
    Inbox,
}

/// The shared parts.
pub struct Engine {
    /// Requests to the kernel.
    pub uring: Uring<Aim>,
    /// This loop's number.
    pub number: usize,
    /// Which blocks lie where, for all loops.
    pub cache: Arc<Blocks>,
    /// Their bytes.
    pub arena: Arc<SharedMapping>,
    /// What was done.
    pub counts: Arc<Counts>,
    /// Requests that the kernel has for a file.
    pub flying: usize,
    /// About what time it is.
    pub now_ns: u64,
    shared: Arc<Shared>,
    teller: Teller,
    fill_manner: Manner,
}

impl Engine {
    /// The parts of the loop with this number; for the thread that calls this.
    pub fn create(
        number: usize,
        shared: Arc<Shared>,
        counts: Arc<Counts>,
        teller: Teller,
    ) -> std::io::Result<Engine> {
        Ok(Engine {
            uring: Uring::create(ENTRIES, UNDER_WAY_MAX)?,
            number,
            cache: shared.blocks.clone(),
            arena: shared.blocks.arena.clone(),
            counts,
            flying: 0,
            now_ns: 0,
            shared,
            teller,
            fill_manner: Manner::Uncached,
        })
    }

    /// Tells the control plane something.
    pub fn tell(&self, news: News) {
        // Where nobody listens any more the process is ending.
        let _ = self.teller.0.send(news);
        let _ = rustix::io::write(&self.teller.1, &1u64.to_ne_bytes());
    }

    /// The cache's number for a version of a file.
    pub fn number(&self, version: Version) -> u64 {
        self.shared.number(version)
    }

    /// The bytes that a session may have at the device, with so many busy ones on this loop.
    pub fn device_share(&self, busy: u64) -> u64 {
        self.shared.device_share(self.number, busy)
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
        let (into, manner) = ((&self.arena, &into[..]), self.fill_manner);
        let aim = Aim::Fill { place, word: lease.word, manner };
        let begun = self.uring.read(aim, &file.buffered, start, into, manner);
        match begun {
            Ok(_) => self.flying += 1,
            // This loop does not wait for it yet, others may.
            Err(_) => drop(self.tell_loops(self.cache.failed(place), GoesOn::ByKernel)),
        }
        begun.is_ok()
    }

    /// A block's read has completed; answers who waited for it on this loop and how they go on, and
    /// tells the others.
    ///
    /// It counts only if the lease still holds: then nobody has changed the file since it began.
    pub fn filled(
        &mut self,
        (place, word, manner): (u32, LeaseWord, Manner),
        result: i32,
    ) -> (Vec<Who>, GoesOn) {
        let (waiters, goes_on) = match u32::try_from(result) {
            Ok(bytes) if bytes > 0 && word.is_active() => {
                Counts::add(&self.counts.blocks_filled, 1);
                (self.cache.filled(place, bytes), GoesOn::InCache)
            }
            // It is only this manner that the file system does not have.
            Err(_) if result == -libc::EOPNOTSUPP && manner != Manner::Plain => {
                self.fill_manner = Manner::Plain;
                (self.cache.failed(place), GoesOn::InCache)
            }
            _ => (self.cache.failed(place), GoesOn::ByKernel),
        };
        (self.tell_loops(waiters, goes_on), goes_on)
    }

    fn tell_loops(&self, waiters: Vec<Waiter>, goes_on: GoesOn) -> Vec<Who> {
        let (own, others): (Vec<Waiter>, Vec<Waiter>) =
            waiters.into_iter().partition(|(number, _)| *number == self.number);
        for (number, gate) in self.shared.gates.iter().enumerate() {
            let its = others.iter().filter(|(its, _)| *its == number).map(|(_, who)| *who);
            let its: Vec<Who> = its.collect();
            if !its.is_empty() {
                gate.send(Order::Filled(its, goes_on));
            }
        }
        own.into_iter().map(|(_, who)| who).collect()
    }
}

/// Whether a request that was not prepared should be tried again.
pub fn is_full(error: &NotPrepared) -> bool {
    matches!(error, NotPrepared::Full)
}
