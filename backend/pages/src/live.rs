//! A range of this process's own memory that the program goes on writing: what a snapshot is
//! taken of.
//!
//! Its bytes are never referenced, only copied: other threads may write them at any time, and a
//! copy that tears is the program's answer to having published at the wrong moment.

mod stream;

use heliostat_base::mapping::{settle, OutOfRange, SharedMapping};
pub(crate) use stream::stream;
use stream::{goes_around, Pairs};

/// Memory of this process, by address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveMemory {
    start: usize,
    len: usize,
}

/// Some bytes of a memory, and where they are to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// From the memory's start.
    pub offset: usize,
    /// From the target's start.
    pub at: usize,
    /// Bytes.
    pub len: usize,
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

    /// Copies all of the pieces, in any order, as one copy after the other would: but pages that
    /// lie apart are copied two at a time, which takes two thirds of the time.
    ///
    /// # Errors
    /// A piece lies outside this memory or the target; then nothing was copied.
    pub fn copy_pieces_to(
        &self,
        pieces: &[Piece],
        target: &SharedMapping,
    ) -> Result<(), OutOfRange> {
        for piece in pieces {
            OutOfRange::check(piece.offset, piece.len, self.len)?;
            target.writable_at(piece.at, piece.len)?;
        }
        let mut pairs = Pairs::new();
        for piece in pieces {
            if !goes_around(piece.len, target.len()) {
                self.copy_to(piece.offset, target, piece.at, piece.len)?;
                continue;
            }
            let into = target.writable_at(piece.at, piece.len)?;
            let from = (self.start + piece.offset) as *const u8;
            // SAFETY: as in `copy_to`; both ranges stay as long as this value and the target,
            // which are borrowed until `pairs` is gone.
            unsafe { pairs.copy(from, into, piece.len) };
        }
        drop(pairs);
        settle(target.as_ptr());
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

#[cfg(test)]
mod tests {
    use super::stream::LARGE_TARGET;
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
    fn pieces_are_copied_as_one_after_the_other_would_be() {
        const LEN: usize = 64 * 4096;
        let bytes: Vec<u8> = (0..LEN).map(|i| (i * 7 + i / 251) as u8).collect();
        // SAFETY: `bytes` outlives every use below.
        let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
        let (_fd, target) = SharedMapping::create(c"live", LARGE_TARGET).unwrap();
        let (_fd, wanted) = SharedMapping::create(c"live", LARGE_TARGET).unwrap();
        let shapes = [(0, 4096), (2, 4096), (5, 3 * 4096), (9, 100), (11, 4096 + 77), (20, 9000)];
        let pieces = shapes.map(|(page, len)| Piece { offset: page * 4096, at: page * 8192, len });
        let odd = Piece { offset: 41, at: 40 * 8192 + 41, len: 2 * 4096 + 5 };
        for count in 0..=pieces.len() {
            let these: Vec<Piece> = pieces[..count].iter().copied().chain([odd]).collect();
            memory.copy_pieces_to(&these, &target).unwrap();
            these.iter().for_each(|it| memory.copy_to(it.offset, &wanted, it.at, it.len).unwrap());
            let (mut is, mut should) = (vec![0; 4 * LEN], vec![1; 4 * LEN]);
            target.copy_out(0, &mut is).unwrap();
            wanted.copy_out(0, &mut should).unwrap();
            assert!(is == should, "{count}");
        }
    }

    #[test]
    fn with_one_piece_outside_none_is_copied() {
        let bytes = vec![7u8; 3 * 4096];
        // SAFETY: `bytes` outlives every use below.
        let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
        let (_fd, target) = SharedMapping::create(c"live", LARGE_TARGET).unwrap();
        let good = Piece { offset: 0, at: 0, len: 4096 };
        let bad = [Piece { offset: 2 * 4096 + 1, ..good }, Piece { at: LARGE_TARGET - 9, ..good }];
        for bad in bad {
            assert!(memory.copy_pieces_to(&[good, bad], &target).is_err());
            let mut copied = [1; 4096];
            target.copy_out(0, &mut copied).unwrap();
            assert!(copied == [0; 4096]);
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
