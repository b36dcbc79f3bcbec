//! The memory of a ring: what the protocol needs of it, and the mapped memfd that gives it.
//!
//! The protocol is generic over [`Memory`], so that loom can run the same code on ordinary memory
//! whose atomics it controls. [`RingMemory`] is the production kind; who creates it is up to the
//! callers, because the fast side should pull: the creator may be the producer or the consumer.

use std::os::fd::RawFd;
use std::sync::Arc;

use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping};

use crate::error::{Corrupt, Fault, RingError, Side};
use crate::layout::*;
use crate::mpmc::{Consumer, Producer};
use crate::position::Geometry;
use crate::spsc::{Refresh, SpscConsumer, SpscProducer};
use crate::sync::{from_ptr_u64, shared_u32, shared_u64};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Bytes of a cache line of every x86-64 processor.
const LINE_BYTES: usize = 64;

/// The control words of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Where the next element will be reserved; written by the producer.
    Head,
    /// Up to where elements are released; written by the consumer.
    Tail,
}

/// What the ring protocol needs of its memory.
///
/// # Safety
/// `fill` and `read` touch exactly the bytes named, and are asked only for ranges inside
/// `[0, 2 * capacity)`, where byte `capacity + i` is byte `i`. The atomics live as long as `self`.
pub unsafe trait Memory: Send + Sync + 'static {
    /// Size of the data.
    fn geometry(&self) -> Geometry;
    /// A control word.
    fn word(&self, word: Word) -> &AtomicU64;
    /// The bell that wakes `side` (producer or consumer).
    fn bell(&self, side: Side) -> &AtomicU32;
    /// The header word at `index`, a multiple of 8 below the capacity.
    fn header(&self, index: usize) -> &AtomicU64;
    /// Copies private bytes into the data.
    fn fill(&self, at: usize, bytes: &[u8]);
    /// Copies bytes of the data into private memory.
    fn read(&self, at: usize, into: &mut [u8]);
    /// Address of the data, for engines and system calls that move bytes themselves.
    fn data(&self) -> *mut u8;
    /// Asks the cache for the line at `index`, to be read.
    fn prefetch(&self, _index: usize) {}
    /// Asks the cache for the line at `index`, to be written.
    fn prefetch_to_write(&self, _index: usize) {}
    /// Marks an end as used by this process; false if it is used already.
    fn claim(&self, side: Side) -> bool;
    /// Gives an end back.
    fn unclaim(&self, side: Side);
}

/// The mapped memory of one ring; one per process and ring, shared by its ends.
#[derive(Debug)]
pub struct RingMemory {
    control: SharedMapping,
    data: SharedMapping,
    geometry: Geometry,
    // Two fields and not one, because each is a statement about one end of this process only.
    producer_claimed: AtomicBool,
    consumer_claimed: AtomicBool,
}

impl RingMemory {
    /// Bytes of shared memory that a ring with `capacity` data bytes takes.
    pub const fn bytes(capacity: u64) -> usize {
        CONTROL_BYTES + capacity as usize
    }

    /// Creates a ring in a memfd of its own.
    pub fn create(
        name: &std::ffi::CStr,
        capacity: u64,
    ) -> Result<(OwnedFd, Arc<RingMemory>), RingError> {
        check_capacity(capacity)?;
        let fd = SharedMapping::create_fd(name, RingMemory::bytes(capacity))?;
        let memory = RingMemory::create_in(std::os::fd::AsRawFd::as_raw_fd(&fd), 0, capacity)?;
        Ok((fd, memory))
    }

    /// Creates a ring inside an existing sealed region, at a page boundary, in zeroed bytes.
    pub fn create_in(
        fd: RawFd,
        offset: usize,
        capacity: u64,
    ) -> Result<Arc<RingMemory>, RingError> {
        let geometry = check_capacity(capacity)?;
        let control = SharedMapping::map(fd, offset, CONTROL_BYTES, Access::ReadWrite)?;
        control.atomic_u32(VERSION_AT).store(VERSION, Ordering::Relaxed);
        control.atomic_u64(CAPACITY_AT).store(capacity, Ordering::Relaxed);
        // [identity] The magic number last; who sees it sees the rest. Handing over the descriptor
        // orders this as well; the release costs nothing.
        control.atomic_u64(MAGIC_AT).store(MAGIC, Ordering::Release);
        RingMemory::map_data(fd, offset, control, geometry)
    }

    /// Attaches a ring that somebody else created, at `offset` of a region we may not trust.
    pub fn attach(fd: RawFd, offset: usize) -> Result<Arc<RingMemory>, RingError> {
        let control = SharedMapping::map(fd, offset, CONTROL_BYTES, Access::ReadWrite)?;
        let geometry = check_identity(&control)?;
        RingMemory::map_data(fd, offset, control, geometry)
    }

    fn map_data(
        fd: RawFd,
        offset: usize,
        control: SharedMapping,
        geometry: Geometry,
    ) -> Result<Arc<RingMemory>, RingError> {
        let len = geometry.capacity() as usize;
        let from = offset + CONTROL_BYTES;
        let data = SharedMapping::double_mapped(fd, from, len, Access::ReadWrite)?;
        let (producer_claimed, consumer_claimed) = Default::default();
        Ok(Arc::new(RingMemory { control, data, geometry, producer_claimed, consumer_claimed }))
    }

    /// The single producer's end.
    pub fn spsc_producer(
        self: &Arc<RingMemory>,
        refresh: Refresh,
    ) -> Result<SpscProducer<RingMemory>, RingError> {
        SpscProducer::new(self.clone(), refresh)
    }

    /// The single consumer's end.
    pub fn spsc_consumer(
        self: &Arc<RingMemory>,
        refresh: Refresh,
    ) -> Result<SpscConsumer<RingMemory>, RingError> {
        SpscConsumer::new(self.clone(), refresh)
    }

    /// The end that many threads of this process produce into.
    pub fn producer(self: &Arc<RingMemory>) -> Result<Producer<RingMemory>, RingError> {
        Producer::new(self.clone())
    }

    /// The end that many threads of this process consume from.
    pub fn consumer(self: &Arc<RingMemory>) -> Result<Consumer<RingMemory>, RingError> {
        Consumer::new(self.clone())
    }

    fn claimed(&self, side: Side) -> &AtomicBool {
        match side {
            Side::Producer => &self.producer_claimed,
            Side::Consumer | Side::Creator => &self.consumer_claimed,
        }
    }
}

// SAFETY: `data` is mapped twice, so every index below twice the capacity is mapped; the atomics
// lie in mappings that `self` owns.
unsafe impl Memory for RingMemory {
    #[inline(always)]
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[inline(always)]
    fn word(&self, word: Word) -> &AtomicU64 {
        shared_u64(self.control.atomic_u64(match word {
            Word::Head => HEAD_AT,
            Word::Tail => TAIL_AT,
        }))
    }

    #[inline(always)]
    fn bell(&self, side: Side) -> &AtomicU32 {
        shared_u32(self.control.atomic_u32(match side {
            Side::Producer => PRODUCER_BELL_AT,
            Side::Consumer | Side::Creator => CONSUMER_BELL_AT,
        }))
    }

    #[inline(always)]
    fn header(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index % 8 == 0 && index < self.geometry.capacity() as usize);
        let masked = index & (self.geometry.capacity() as usize - 1) & !7;
        // SAFETY: the mask keeps the word inside the data (capacity is a power of two and at
        // least a page), aligned, and mapped as long as `self`.
        shared_u64(unsafe { from_ptr_u64(self.data.as_ptr().add(masked).cast()) })
    }

    #[inline]
    fn fill(&self, at: usize, bytes: &[u8]) {
        // The caller has checked the range against its reservation; the mapping checks it again
        // against itself, which is what memory safety rests on.
        let into = self.data.bytes_at(at, bytes.len()).expect("reserved bytes are mapped");
        // The first line holds the header, which a consumer may be polling: it comes last, see
        // `zero_behind`.
        let (first, rest) = bytes.split_at(bytes.len().min(LINE_BYTES - at % LINE_BYTES));
        // SAFETY: `into` is valid for the length of both parts (just checked) and private memory
        // cannot overlap a mapping that nobody has a reference into.
        unsafe {
            crate::copy::move_bytes(into.add(first.len()), rest.as_ptr(), rest.len());
            crate::copy::move_bytes(into, first.as_ptr(), first.len());
        }
    }

    #[inline]
    fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.data.bytes_at(at, into.len()).expect("taken bytes are mapped");
        // SAFETY: as in `fill`, the other way round.
        unsafe { crate::copy::move_bytes(into.as_mut_ptr(), from, into.len()) };
    }

    #[inline(always)]
    fn data(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    #[inline(always)]
    fn prefetch(&self, index: usize) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: a prefetch of any address is harmless; it never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(self.data.as_ptr().wrapping_add(index).cast()) };
    }

    #[inline(always)]
    fn prefetch_to_write(&self, index: usize) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_ET0};
        // SAFETY: a prefetch of any address is harmless; it never faults.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.data.as_ptr().wrapping_add(index).cast()) };
    }

    fn claim(&self, side: Side) -> bool {
        // [claim] An end that comes back brings everything its last holder did.
        !self.claimed(side).swap(true, Ordering::Acquire)
    }

    fn unclaim(&self, side: Side) {
        // [claim]
        self.claimed(side).store(false, Ordering::Release);
    }
}

fn check_capacity(capacity: u64) -> Result<Geometry, RingError> {
    let (least, most) = (CAPACITY_MIN, CAPACITY_MAX);
    Geometry::new(capacity).ok_or(RingError::Capacity { wanted: capacity, least, most })
}

/// Reads the creator's identity words once each and accepts only what a creator writes.
fn check_identity(control: &SharedMapping) -> Result<Geometry, Corrupt> {
    let refuse = |fault, found, wanted| Corrupt { side: Side::Creator, fault, found, wanted };
    // [identity]
    let magic = control.atomic_u64(MAGIC_AT).load(Ordering::Acquire);
    if magic != MAGIC {
        return Err(refuse(Fault::Magic, magic, MAGIC));
    }
    let version = control.atomic_u32(VERSION_AT).load(Ordering::Relaxed);
    if version != VERSION {
        return Err(refuse(Fault::Version, version as u64, VERSION as u64));
    }
    let flags = control.atomic_u32(FLAGS_AT).load(Ordering::Relaxed);
    if flags != 0 {
        return Err(refuse(Fault::Reserved, flags as u64, 0));
    }
    let capacity = control.atomic_u64(CAPACITY_AT).load(Ordering::Relaxed);
    Geometry::new(capacity).ok_or(refuse(Fault::Capacity, capacity, CAPACITY_MAX))
}

#[cfg(all(test, loom))]
pub(crate) mod words;
