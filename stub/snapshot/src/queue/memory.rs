//! The memory of a queue: the producer's table, a consumer's page with its bell.

use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use heliostat_abi::snapshot::memory::{DESCRIPTION, DESCRIPTION_MAX};
use heliostat_abi::snapshot::queue::{
    Shape, ARMED, CLOSED, CURSOR, HANDLE, HEAD, HEAD_BYTES, HOLD, LENGTH, MARK, ORDINAL,
    PAGE_BYTES, PAGE_MAGIC, TO, WAITED,
};
use heliostat_abi::wire::Writer;
use heliostat_abi::VERSION;
use heliostat_base::bell::Bell;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping, Writers};
use heliostat_ring::queue::{Seat, Words};

use crate::{ConsumerHandle, PoolError};

/// A table, of the producer's own or mapped from it.
pub(super) struct Table {
    memory: SharedMapping,
    pub(super) shape: Shape,
}

impl Table {
    pub(super) fn create(shape: Shape) -> Result<(OwnedFd, Self), PoolError> {
        let (name, writers) = (c"heliostat-queue-table", Writers::CreatorOnly);
        let (fd, memory) = SharedMapping::create_for(name, shape.table_bytes(), writers)?;
        // The table was just made of this length, so its head is inside it.
        let _ = memory.copy_in(0, &shape.encode());
        Ok((fd, Self { memory, shape }))
    }

    pub(super) fn open(fd: &OwnedFd) -> Result<Self, PoolError> {
        let head = SharedMapping::from_fd(fd.as_raw_fd(), PAGE_BYTES, Access::Read)?;
        let mut bytes = [0; HEAD_BYTES];
        head.copy_out(0, &mut bytes).map_err(|_| PoolError::NoTable)?;
        let shape = Shape::decode(&bytes).ok_or(PoolError::NoTable)?;
        let memory = SharedMapping::from_fd(fd.as_raw_fd(), shape.table_bytes(), Access::Read)?;
        Ok(Self { memory, shape })
    }

    /// Says what the items' bytes mean; false when that is too long. Before anybody attaches.
    pub(super) fn set_meaning(&self, text: &[u8]) -> bool {
        let fits = text.len() <= DESCRIPTION_MAX;
        if fits && self.memory.copy_in(DESCRIPTION + 4, text).is_ok() {
            self.memory.atomic_u32(DESCRIPTION).store(text.len() as u32, Relaxed);
        }
        fits
    }

    /// What the producer says that the items' bytes mean.
    pub(super) fn meaning(&self) -> Vec<u8> {
        let length = self.memory.atomic_u32(DESCRIPTION).load(Relaxed) as usize;
        let mut text = vec![0; length.min(DESCRIPTION_MAX)];
        // It lies inside the head's page.
        let _ = self.memory.copy_out(DESCRIPTION + 4, &mut text);
        text
    }

    fn word(&self, slot: usize, field: usize) -> &AtomicU64 {
        self.memory.atomic_u64(self.shape.entry(slot) + field)
    }

    /// Says what lies in a retired slot, before its mark does.
    pub(super) fn describe(&self, slot: usize, length: usize, ordinal: u64, to: u64) {
        self.word(slot, LENGTH).store(length as u64, Relaxed);
        self.word(slot, ORDINAL).store(ordinal, Relaxed);
        self.word(slot, TO).store(to, Relaxed);
    }

    /// Length and ordinal of the item in a slot; the length never beyond the slot's.
    pub(super) fn description(&self, slot: usize) -> (usize, u64) {
        let length = self.word(slot, LENGTH).load(Relaxed).min(self.shape.slot_bytes);
        (length as usize, self.word(slot, ORDINAL).load(Relaxed))
    }

    /// True when the item in a slot is for the consumer of `page`. A dealt item has one receiver;
    /// one that was committed when nobody was there has none, and is for nobody who came since.
    pub(super) fn is_for(&self, slot: usize, page: &Page) -> bool {
        let is_receiver = |handle| handle != 0 && self.word(slot, TO).load(Relaxed) == handle;
        !self.shape.is_dealt || is_receiver(page.handle())
    }

    pub(super) fn close(&self) {
        self.memory.atomic_u32(CLOSED).store(1, SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.memory.atomic_u32(CLOSED).load(Acquire) != 0
    }
}

impl Words for Table {
    fn head(&self) -> &AtomicU64 {
        self.memory.atomic_u64(HEAD)
    }

    fn mark(&self, slot: usize) -> &AtomicU64 {
        self.word(slot, MARK)
    }

    fn slots(&self) -> usize {
        self.shape.slots as usize
    }
}

/// A consumer's page with this side's end of the bell, of its own or mapped from it.
pub(super) struct Page {
    memory: SharedMapping,
    pub(super) bell: Bell,
}

impl Page {
    /// A fresh page, and the descriptors for the producer.
    pub(super) fn create() -> Result<(OwnedFd, Bell, Self), PoolError> {
        let (fd, memory) = SharedMapping::create(c"heliostat-queue-page", PAGE_BYTES)?;
        let mut head = [0; 8];
        Writer::new(&mut head).u32(PAGE_MAGIC).u32(u32::from(VERSION));
        // The page was just made of this length.
        let _ = memory.copy_in(0, &head);
        let (bell, theirs) = Bell::pair().map_err(PoolError::Bell)?;
        Ok((fd, theirs, Self { memory, bell }))
    }

    /// A consumer's page and bell.
    pub(super) fn open(fd: &OwnedFd, bell: &OwnedFd) -> Result<Self, PoolError> {
        let memory = SharedMapping::from_fd(fd.as_raw_fd(), PAGE_BYTES, Access::ReadWrite)?;
        let word = |at| memory.atomic_u32(at).load(Relaxed);
        if (word(0), word(4)) != (PAGE_MAGIC, u32::from(VERSION)) {
            return Err(PoolError::NoPins);
        }
        let bell = Bell::from_fd(bell.duplicate().map_err(PoolError::Bell)?);
        Ok(Self { memory, bell: bell.ok_or(PoolError::NoBell)? })
    }

    pub(super) fn set_handle(&self, handle: ConsumerHandle) {
        self.memory.atomic_u64(HANDLE).store(handle.number(), Relaxed);
    }

    /// Own handle's number as the producer says, 0 before it has said so.
    fn handle(&self) -> u64 {
        self.memory.atomic_u64(HANDLE).load(Relaxed)
    }

    /// The consumer wants a ring at the next item. A full fence.
    pub(super) fn arm(&self) {
        self.memory.atomic_u32(ARMED).swap(1, SeqCst);
    }

    /// The producer wants a ring when the consumer has gone on. A full fence.
    pub(super) fn await_room(&self) {
        self.memory.atomic_u32(WAITED).swap(1, SeqCst);
    }

    /// Producer: rings a consumer that wants it.
    pub(super) fn ring_consumer(&self) {
        self.ring_if(ARMED);
    }

    /// Consumer: rings a producer that wants it.
    pub(super) fn ring_producer(&self) {
        self.ring_if(WAITED);
    }

    /// The word is cleared first: whoever sets it again meanwhile finds the byte on its way, looks
    /// once in vain and sets it once more.
    fn ring_if(&self, word: usize) {
        let word = self.memory.atomic_u32(word);
        if word.load(SeqCst) != 0 && word.swap(0, SeqCst) != 0 {
            self.bell.ring();
        }
    }
}

impl Seat for Page {
    fn cursor(&self) -> &AtomicU64 {
        self.memory.atomic_u64(CURSOR)
    }

    fn hold(&self) -> &AtomicU64 {
        self.memory.atomic_u64(HOLD)
    }
}
