//! Where a lane's words and bytes lie: mapped memory, or loom's under test.
//!
//! The protocol is generic over [`Place`], so that loom can run the very code that runs in
//! production. [`Mapped`] is the production kind: a direction header and a ring inside one shared
//! mapping, checked once, then reached by plain addition.

use std::ptr::NonNull;
use std::sync::Arc;

use heliostat_base::guarded::{self, Fault};
use heliostat_base::mapping::{OutOfRange, Pieces, SharedMapping};

use crate::sync::{from_ptr_u32, from_ptr_u64, shared_u32, shared_u64, AtomicU32, AtomicU64};

/// Bytes of a direction header.
const HEADER_BYTES: usize = 256;

/// What the lane protocol needs of its memory.
///
/// # Safety
/// `capacity` is a power of two and never changes; the words live as long as `self`; the copies
/// touch exactly the bytes named, which the callers keep inside `[0, capacity)`.
pub unsafe trait Place: Clone + Send + Sync {
    /// Bytes of the ring.
    fn capacity(&self) -> u64;
    /// The 32-bit word at one of `abi::channel::direction`'s offsets.
    fn u32(&self, offset: usize) -> &AtomicU32;
    /// The 64-bit word at one of those offsets.
    fn u64(&self, offset: usize) -> &AtomicU64;
    /// Copies ring bytes out, without a wrap. A fault where `to` is memory that is not there.
    fn copy_out(&self, at: usize, to: &mut [u8]) -> Result<(), Fault>;
    /// Copies bytes into the ring, without a wrap. A fault where `from` is not there.
    fn copy_in(&self, at: usize, from: &[u8]) -> Result<(), Fault>;
    /// Asks for the cache line of ring byte `at`, because it will be written next; a hint.
    fn claim_line(&self, _at: usize) {}
    /// Asks for the cache line of ring byte `at`, because it will be read next; a hint.
    fn fetch_line(&self, _at: usize) {}
    /// Asks for the line of the writer's words; a hint.
    fn fetch_words(&self) {}
}

/// A direction header and its ring in shared memory; cheap to clone, keeps the memory mapped.
#[derive(Clone)]
pub struct Mapped {
    words: NonNull<u8>,
    data: NonNull<u8>,
    capacity: u64,
    memory: Arc<SharedMapping>,
}

// SAFETY: the pointers stay valid while `memory` lives, words are only used as atomics, and
// payload bytes are only copied.
unsafe impl Send for Mapped {}
// SAFETY: as above; concurrent copies may tear bytes of a misbehaving peer, never our memory.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The header at `words` and the ring of `capacity` bytes at `data`; everything must lie
    /// inside the mapping, the header on a cache line, and the capacity be a power of two.
    pub(super) fn new(
        memory: &Arc<SharedMapping>,
        words: usize,
        data: usize,
        capacity: u32,
    ) -> Result<Self, OutOfRange> {
        let misfit = OutOfRange { offset: words, len: capacity as usize, limit: memory.len() };
        if words % 64 != 0 || !capacity.is_power_of_two() {
            return Err(misfit);
        }
        let words = NonNull::new(memory.bytes_at(words, HEADER_BYTES)?).ok_or(misfit)?;
        let data = NonNull::new(memory.bytes_at(data, capacity as usize)?).ok_or(misfit)?;
        Ok(Self { words, data, capacity: u64::from(capacity), memory: memory.clone() })
    }

    /// `first` ring bytes from `at` on, and `rest` from the front, for system calls.
    pub(super) fn pieces(&self, at: usize, first: usize, rest: usize) -> Pieces {
        debug_assert!((at + first) as u64 <= self.capacity && rest as u64 <= self.capacity);
        let start = self.data.addr().get() - self.memory.as_ptr().addr();
        let first = first.min(self.capacity as usize - at);
        let rest = rest.min(at);
        // `new` has checked that the ring lies inside the memory; what may not be written is no ring.
        Pieces::of(&self.memory, [(start + at, first), (start, rest)])
            .unwrap_or_else(|_| Pieces::none(&self.memory))
    }

    /// Address of ring byte `at`, below the capacity, for system calls that move bytes themselves.
    pub(super) fn byte(&self, at: usize) -> *mut u8 {
        debug_assert!((at as u64) < self.capacity);
        self.data.as_ptr().wrapping_add(at)
    }
}

// SAFETY: the capacity was checked in `new`, and the words lie in memory that `self` keeps mapped.
unsafe impl Place for Mapped {
    #[inline(always)]
    fn capacity(&self) -> u64 {
        self.capacity
    }

    #[inline(always)]
    fn u32(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset % 4 == 0 && offset + 4 <= HEADER_BYTES);
        // SAFETY: offsets are the abi's constants below 256, inside the header checked in `new`,
        // aligned because the header is; the memory lives as long as `self`.
        shared_u32(unsafe { from_ptr_u32(self.words.as_ptr().add(offset).cast()) })
    }

    #[inline(always)]
    fn u64(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset % 8 == 0 && offset + 8 <= HEADER_BYTES);
        // SAFETY: as in `u32`, and the offsets of 64-bit words are multiples of eight.
        shared_u64(unsafe { from_ptr_u64(self.words.as_ptr().add(offset).cast()) })
    }

    #[inline(always)]
    fn copy_out(&self, at: usize, to: &mut [u8]) -> Result<(), Fault> {
        debug_assert!(at as u64 + to.len() as u64 <= self.capacity);
        // SAFETY: the lane keeps at + length inside the ring (`Place`); `to` is ours alone.
        unsafe { guarded::copy(to.as_mut_ptr(), self.byte(at), to.len()) }
    }

    #[inline(always)]
    fn copy_in(&self, at: usize, from: &[u8]) -> Result<(), Fault> {
        debug_assert!(at as u64 + from.len() as u64 <= self.capacity);
        // SAFETY: as in `copy_out`; private bytes cannot overlap the mapping.
        unsafe { guarded::copy(self.byte(at), from.as_ptr(), from.len()) }
    }

    #[inline(always)]
    fn claim_line(&self, at: usize) {
        // SAFETY: a prefetch reads and writes nothing and faults at no address.
        unsafe { core::arch::asm!("prefetchw [{}]", in(reg) self.byte(at), options(nostack)) }
    }

    #[inline(always)]
    fn fetch_line(&self, at: usize) {
        // SAFETY: as in `claim_line`.
        unsafe { core::arch::asm!("prefetcht0 [{}]", in(reg) self.byte(at), options(nostack)) }
    }

    #[inline(always)]
    fn fetch_words(&self) {
        let words = self.words.as_ptr();
        // SAFETY: as in `claim_line`.
        unsafe { core::arch::asm!("prefetcht0 [{}]", in(reg) words, options(nostack)) }
    }
}
