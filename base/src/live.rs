//! A range of this process's own memory that the program goes on writing: what a snapshot is
//! taken of.
//!
//! Its bytes are never referenced, only copied: other threads may write them at any time, and a
//! copy that tears is the program's answer to having published at the wrong moment.

use crate::mapping::{settle, OutOfRange, SharedMapping};

/// Memory of this process, by address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveMemory {
    start: usize,
    len: usize,
}

impl LiveMemory {
    /// The `len` bytes at `start`.
    ///
    /// # Safety
    /// The range stays mapped readable for as long as this value, or a copy of it, is used.
    pub const unsafe fn new(start: usize, len: usize) -> Self {
        Self { start, len }
    }

    /// Address of the first byte.
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes at all.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `len` bytes at `offset` to `at` in `target`.
    pub fn copy_to(
        &self,
        offset: usize,
        target: &SharedMapping,
        at: usize,
        len: usize,
    ) -> Result<(), OutOfRange> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(OutOfRange { offset, len, limit: self.len });
        }
        let into = target.writable_at(at, len)?;
        let from = (self.start + offset) as *const u8;
        // SAFETY: `into` is valid for `len` writable bytes (just checked); the source lies inside
        // the range whose readability `new`'s caller promised. They may overlap only if somebody
        // publishes the pool itself, and both copies allow that: the bytes are then nobody's
        // promise.
        unsafe {
            match len < STREAMED_FROM {
                true => std::ptr::copy(from, into, len),
                false => stream(from, into, len),
            }
        }
        settle(into);
        Ok(())
    }

    /// True when the bytes at `offset` differ from those at `at` of `target`.
    pub fn differs(
        &self,
        offset: usize,
        target: &SharedMapping,
        at: usize,
        len: usize,
    ) -> Result<bool, OutOfRange> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(OutOfRange { offset, len, limit: self.len });
        }
        let other = target.bytes_at(at, len)?;
        // SAFETY: both ranges are readable for `len` bytes: the first by `new`'s promise, the
        // second as checked. memcmp reads each byte and keeps no reference.
        let order = unsafe { libc::memcmp((self.start + offset) as *const _, other.cast(), len) };
        Ok(order != 0)
    }
}

/// Copies of this length go around the caches: the copier will not read them, and they would push
/// out what the program works on. Half a chunk's worth of pages in a row.
const STREAMED_FROM: usize = 256 * 1024;
/// Bytes of one streamed store's register.
const LANE: usize = 16;

/// Copies with non-temporal stores.
///
/// # Safety
/// `from` is readable and `into` writable for `len` bytes, which is more than a register's.
#[cfg(target_arch = "x86_64")]
unsafe fn stream(from: *const u8, into: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    let head = into.align_offset(LANE).min(len);
    let whole = (len - head) / (4 * LANE) * (4 * LANE);
    // SAFETY: head + whole <= len, so every byte lies in both ranges; stores are aligned because
    // `head` brings `into` to a register's boundary. SSE2 belongs to x86-64. The fence makes the
    // streamed bytes visible before whatever is published after this copy.
    unsafe {
        std::ptr::copy(from, into, head);
        for at in (head..head + whole).step_by(4 * LANE) {
            let source = from.add(at).cast::<__m128i>();
            let target = into.add(at).cast::<__m128i>();
            let lanes: [__m128i; 4] = std::array::from_fn(|i| _mm_loadu_si128(source.add(i)));
            for (i, lane) in lanes.into_iter().enumerate() {
                _mm_stream_si128(target.add(i), lane);
            }
        }
        _mm_sfence();
        let done = head + whole;
        std::ptr::copy(from.add(done), into.add(done), len - done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_copies_are_whole_at_any_alignment() {
        let bytes: Vec<u8> = (0..STREAMED_FROM * 2).map(|i| (i * 7 + i / 251) as u8).collect();
        // SAFETY: `bytes` outlives every use below.
        let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
        let (_fd, target) = SharedMapping::create(c"live", STREAMED_FROM * 2 + 4096).unwrap();
        for (offset, at, more) in [(0, 0, 0), (1, 0, 1), (0, 1, 63), (5, 13, 64), (63, 31, 77)] {
            let len = STREAMED_FROM + more;
            target.zero(0, target.len()).unwrap();
            memory.copy_to(offset, &target, at, len).unwrap();
            let mut copied = vec![0; len + 1];
            target.copy_out(at, &mut copied).unwrap();
            assert!(copied[..len] == bytes[offset..offset + len], "{offset} {at} {more}");
            assert_eq!(copied[len], 0, "a byte too many");
        }
    }

    #[test]
    fn bytes_are_copied_and_compared_inside_the_range_only() {
        let bytes: Vec<u8> = (0..=255).collect();
        // SAFETY: `bytes` outlives every use below.
        let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
        let (_fd, target) = SharedMapping::create(c"live", 4096).unwrap();
        memory.copy_to(10, &target, 100, 20).unwrap();
        let mut copied = [0; 20];
        target.copy_out(100, &mut copied).unwrap();
        assert_eq!(copied[..], bytes[10..30]);
        assert_eq!(memory.differs(10, &target, 100, 20), Ok(false));
        assert_eq!(memory.differs(11, &target, 100, 20), Ok(true));
        assert!(memory.copy_to(250, &target, 0, 7).is_err());
        assert!(memory.copy_to(usize::MAX, &target, 0, 2).is_err());
        assert!(memory.copy_to(0, &target, 4090, 7).is_err());
    }
}
