//! Safe views of shared memory: atomics and bounds-checked copies, never references to bytes.
//!
//! Another process may write the bytes at any time, so no `&[u8]` or `&mut [u8]` into them is ever
//! made. Words that carry protocol are atomics; payload moves by copies that the compiler cannot
//! see through, so that a value checked after `copy_out` cannot be read a second time from the
//! shared side.

use std::sync::atomic::{AtomicU32, AtomicU64};

use super::{Access, SharedMapping};

/// The page size of x86-64, the grain of every mapping (source: the architecture).
pub const PAGE_BYTES: usize = 4096;

/// A view was asked for outside the mapping, misaligned, or for writing where only reading is
/// allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfRange {
    /// First byte wanted.
    pub offset: usize,
    /// Bytes wanted.
    pub len: usize,
    /// Bytes there are (0 where the mapping may not be written).
    pub limit: usize,
}

impl OutOfRange {
    /// Whether the `len` bytes at `offset` all lie in the first `limit`.
    pub fn check(offset: usize, len: usize, limit: usize) -> Result<(), Self> {
        match offset.checked_add(len) {
            Some(end) if end <= limit => Ok(()),
            _ => Err(Self { offset, len, limit }),
        }
    }
}

impl std::fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {} of a region of {}", self.len, self.offset, self.limit)
    }
}
impl std::error::Error for OutOfRange {}

impl SharedMapping {
    /// Pointer to `len` bytes at `offset`, if they all lie inside the mapping.
    #[inline]
    pub fn bytes_at(&self, offset: usize, len: usize) -> Result<*mut u8, OutOfRange> {
        match offset.checked_add(len) {
            // SAFETY: offset <= end <= len of one live mapping, so the sum stays inside it.
            Some(end) if end <= self.len() => Ok(unsafe { self.as_ptr().add(offset) }),
            _ => Err(OutOfRange { offset, len, limit: self.len() }),
        }
    }

    /// A 32-bit word of the region. On a read-only mapping only loads are allowed.
    ///
    /// Panics when the word lies outside or is misaligned: the offset is the caller's own
    /// constant, never a number that a peer chose (those go through [`Self::bytes_at`]).
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset % 4 == 0 && offset < self.len() && self.len() - offset >= 4);
        // SAFETY: in bounds and aligned (asserted; the mapping starts on a page), valid for the
        // lifetime of `self`; every access to the word by us is atomic.
        unsafe { AtomicU32::from_ptr(self.as_ptr().add(offset).cast()) }
    }

    /// A 64-bit word of the region; the rules of [`Self::atomic_u32`] hold.
    #[inline]
    pub fn atomic_u64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset % 8 == 0 && offset < self.len() && self.len() - offset >= 8);
        // SAFETY: in bounds and aligned (asserted; the mapping starts on a page), valid for the
        // lifetime of `self`; every access to the word by us is atomic.
        unsafe { AtomicU64::from_ptr(self.as_ptr().add(offset).cast()) }
    }

    /// Has the cache line at an offset fetched for writing, while other things are done. Changes
    /// nothing; whoever else has the line has to fetch it again.
    #[inline(always)]
    pub fn fetch_to_write(&self, offset: usize) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_ET0};
        // SAFETY: a prefetch of any address is harmless; it never faults.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.as_ptr().wrapping_add(offset).cast()) };
    }

    /// Copies bytes out of the region into private memory.
    #[inline]
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.bytes_at(offset, into.len())?;
        // SAFETY: `from` is valid for the length (checked above), `into` is private memory and
        // cannot overlap a mapping that nobody has a reference into.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        settle(into.as_mut_ptr());
        Ok(())
    }

    /// Copies private bytes into the region.
    #[inline]
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<(), OutOfRange> {
        let into = self.writable_at(offset, from.len())?;
        // SAFETY: as in `copy_out`, the other way round; the mapping is writable (checked).
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
        settle(into);
        Ok(())
    }

    /// Copies `len` bytes from one place of the region to another.
    #[inline]
    pub fn copy_within(&self, from: usize, to: usize, len: usize) -> Result<(), OutOfRange> {
        let (from, into) = (self.bytes_at(from, len)?, self.writable_at(to, len)?);
        // SAFETY: both are valid for `len` bytes and the second is writable (checked above);
        // `copy` allows them to overlap.
        unsafe { std::ptr::copy(from, into, len) };
        settle(into);
        Ok(())
    }

    /// Copies `len` bytes to a place in another region.
    #[inline]
    pub fn copy_to(
        &self,
        offset: usize,
        into: &SharedMapping,
        at: usize,
        len: usize,
    ) -> Result<(), OutOfRange> {
        let (from, into) = (self.bytes_at(offset, len)?, into.writable_at(at, len)?);
        // SAFETY: both are valid for `len` bytes and the second is writable (checked above); two
        // regions may be one and the same, so `copy`, which allows them to overlap.
        unsafe { std::ptr::copy(from, into, len) };
        settle(into);
        Ok(())
    }

    /// Sets bytes of the region to zero.
    #[inline]
    pub fn zero(&self, offset: usize, len: usize) -> Result<(), OutOfRange> {
        self.fill(offset, len, 0)
    }

    /// Sets bytes of the region to a value.
    #[inline]
    pub fn fill(&self, offset: usize, len: usize, value: u8) -> Result<(), OutOfRange> {
        let into = self.writable_at(offset, len)?;
        // SAFETY: valid for `len` writable bytes (checked above).
        unsafe { std::ptr::write_bytes(into, value, len) };
        settle(into);
        Ok(())
    }

    /// Returns the address of `len` bytes that may be written. They may change under whoever writes
    /// there: no reference may be made of it, and it is good for as long as the mapping is.
    #[inline]
    pub fn writable_at(&self, offset: usize, len: usize) -> Result<*mut u8, OutOfRange> {
        if self.access() == Access::Read {
            return Err(OutOfRange { offset, len, limit: 0 });
        }
        self.bytes_at(offset, len)
    }
}

/// Ends a copy: the compiler must assume that any memory may have changed here, so it can neither
/// re-read a foreign byte that was already copied nor delay a store into the region.
#[inline(always)]
pub fn settle(at: *mut u8) {
    // SAFETY: the assembly is empty.
    unsafe { core::arch::asm!("/* {0} */", in(reg) at, options(nostack, preserves_flags)) };
}
