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
        OutOfRange::check(offset, len, self.len)?;
        let into = target.writable_at(at, len)?;
        let from = (self.start + offset) as *const u8;
        // SAFETY: `into` is valid for `len` writable bytes (just checked); the source lies inside
        // the range whose readability `new`'s caller promised. They may overlap only if somebody
        // publishes the pool itself, and both copies allow that: the bytes are then nobody's
        // promise.
        unsafe {
            match goes_around(len, target.len()) {
                true => stream(from, into, len),
                false => std::ptr::copy(from, into, len),
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
        OutOfRange::check(offset, len, self.len)?;
        let other = target.bytes_at(at, len)?;
        // SAFETY: both ranges are readable for `len` bytes: the first by `new`'s promise, the
        // second as checked. memcmp reads each byte and keeps no reference.
        let order = unsafe { libc::memcmp((self.start + offset) as *const _, other.cast(), len) };
        Ok(order != 0)
    }
}

/// Copies of at least a page go around the caches, where the target as a whole is too large for
/// its lines to be in a cache still: a plain store would first fetch the line that it replaces,
/// and push out what the program works on.
const STREAMED_PAGE: usize = 4096;
/// Such a target: more than a core's own caches hold. Into a smaller one a streamed copy of
/// 256 KiB takes nearly twice as long as a plain one, and the reader fetches it from memory.
const LARGE_TARGET: usize = 16 << 20;

fn goes_around(len: usize, target: usize) -> bool {
    len >= STREAMED_PAGE && target >= LARGE_TARGET
}

/// Bytes of a line of the cache, and of one streamed store's register.
const LINE: usize = 64;
#[cfg(target_arch = "x86_64")]
const LANE: usize = 16;

/// Copies with non-temporal stores, two pages side by side: the memory then works on two of its
/// rows at once, and the processor's read-ahead, which ends at a page's border, on two streams.
///
/// # Safety
/// `from` is readable and `into` writable for `len` bytes.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn stream(from: *const u8, into: *mut u8, len: usize) {
    let head = into.align_offset(LINE).min(len);
    let pairs = (len - head) / (2 * STREAMED_PAGE) * (2 * STREAMED_PAGE);
    let lines = (len - head - pairs) / LINE * LINE;
    let done = head + pairs + lines;
    // SAFETY: head + pairs + lines <= len, so every byte lies in both ranges, and `head` brings
    // `into` to a line's boundary. The fence makes the streamed bytes visible before whatever is
    // published after this copy.
    unsafe {
        std::ptr::copy(from, into, head);
        for pair in (head..head + pairs).step_by(2 * STREAMED_PAGE) {
            for at in (pair..pair + STREAMED_PAGE).step_by(LINE) {
                stream_line(from.add(at), into.add(at));
                stream_line(from.add(at + STREAMED_PAGE), into.add(at + STREAMED_PAGE));
            }
        }
        for at in (head + pairs..done).step_by(LINE) {
            stream_line(from.add(at), into.add(at));
        }
        std::arch::x86_64::_mm_sfence();
        std::ptr::copy(from.add(done), into.add(done), len - done);
    }
}

/// # Safety
/// A line is readable at `from` and writable at `into`, which is aligned to one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn stream_line(from: *const u8, into: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let (source, target) = (from.cast::<__m128i>(), into.cast::<__m128i>());
    // SAFETY: four registers are a line; SSE2 belongs to x86-64.
    unsafe {
        let lanes: [__m128i; LINE / LANE] = std::array::from_fn(|i| _mm_loadu_si128(source.add(i)));
        for (i, lane) in lanes.into_iter().enumerate() {
            _mm_stream_si128(target.add(i), lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_copies_are_whole_at_any_alignment() {
        const LONG: usize = 256 * 1024;
        let bytes: Vec<u8> = (0..LONG * 2).map(|i| (i * 7 + i / 251) as u8).collect();
        // SAFETY: `bytes` outlives every use below.
        let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
        let (_fd, target) = SharedMapping::create(c"live", LARGE_TARGET).unwrap();
        let cases = [(0, 0, 0), (1, 0, 1), (0, 1, 63), (5, 13, 64), (63, 31, 77), (0, 64, 8191)];
        for (offset, at, more) in cases {
            let len = LONG + more;
            target.zero(0, 2 * LONG).unwrap();
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
