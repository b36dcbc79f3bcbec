//! Memory in pieces of several mappings, reached as if it were one.
//!
//! ```text
//! area     | 0 ............. | ........... | .... bytes |
//!            arena 3 at 64     arena 3 at 0   arena 7 at 4096
//! ```
//!
//! A memory region consists of pieces of a few large arenas. Both sides reach it by this type: a
//! program whose path is direct, and the server loop for the others. Every access is checked against
//! the area's length and then against the mapping's. Others may write the same bytes meanwhile: no
//! reference into them is made, a copy may hold any mixture, and only words change in one step.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use heliostat_abi::memory::limits::PIECES_MAX;
use heliostat_base::mapping::{OutOfRange, SharedMapping};

use crate::copy::copy_part;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{shared_u64, AtomicU64};

/// What pieces begin at a multiple of, in their arena and in their area: a word lies in one piece.
pub const WORD_BYTES: u64 = 8;

/// Where bytes lie, in order. What is there stays where it is: an area may only become longer.
///
/// Orders: `G1` new pieces, and the length of the last one, before the number of bytes that counts them.
#[derive(Debug)]
pub struct Area {
    pieces: Vec<Piece>,
    /// Those that came later: room for as many as a region has, made for the first.
    more: OnceLock<Box<[OnceLock<Piece>]>>,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Piece {
    memory: Arc<SharedMapping>,
    /// First byte in the mapping.
    at: usize,
    /// First byte in the area.
    start: u64,
    bytes: AtomicU64,
}

impl Piece {
    #[inline]
    fn bytes(&self) -> u64 {
        // Whoever looks beyond what it was before has seen, by G1, what it is.
        self.bytes.load(Relaxed)
    }

    /// One past its last byte in the area.
    fn end(&self) -> u64 {
        self.start + self.bytes()
    }

    /// Whether the other begins with the same bytes.
    fn goes_on_in(&self, other: &Piece) -> bool {
        Arc::ptr_eq(&self.memory, &other.memory)
            && (self.at, self.start) == (other.at, other.start)
            && self.bytes() <= other.bytes()
    }
}

/// Bytes of an area that lie in one piece.
#[derive(Clone, Copy)]
struct Part<'a> {
    memory: &'a SharedMapping,
    at: usize,
    bytes: usize,
}

impl Area {
    /// The first `bytes` of these pieces, each (mapping, first byte, bytes). Pieces of one arena must
    /// come with one mapping: copies between overlapping bytes see by it that they overlap.
    ///
    /// # Errors
    /// A piece does not lie in its mapping, is empty or misaligned, or they are fewer bytes together.
    pub fn new(
        pieces: impl IntoIterator<Item = (Arc<SharedMapping>, u64, u64)>,
        bytes: u64,
    ) -> Result<Self, OutOfRange> {
        let (mut list, mut start) = (Vec::new(), 0u64);
        for (memory, at, bytes) in pieces {
            let (at, len) = (at as usize, bytes as usize);
            let refused = OutOfRange { offset: at, len, limit: memory.len() };
            let is_aligned = (at as u64 | start) % WORD_BYTES == 0;
            if bytes == 0 || !is_aligned || memory.writable_at(at, len).is_err() {
                return Err(refused);
            }
            list.push(Piece { memory, at, start, bytes: AtomicU64::new(bytes) });
            start = start.checked_add(bytes).ok_or(refused)?;
        }
        OutOfRange::check(0, bytes as usize, start as usize)?;
        Ok(Self { pieces: list, more: OnceLock::new(), bytes: AtomicU64::new(bytes) })
    }

    /// Becomes as long as another area that begins with the same pieces; others may use it meanwhile,
    /// and nobody else may change it. False, and nothing is changed, where that lies elsewhere.
    pub fn grow_to(&self, longer: &Area) -> bool {
        let known = self.all().count();
        let goes_on = self.all().zip(longer.all()).all(|(own, other)| own.goes_on_in(other));
        if !goes_on || longer.all().count() < known || longer.bytes() < self.bytes() {
            return false;
        }
        let more = longer.all().skip(known);
        let room = known + more.clone().count() <= PIECES_MAX;
        if !room {
            return false;
        }
        if let Some((own, other)) = self.all().zip(longer.all()).last() {
            own.bytes.store(other.bytes(), Relaxed);
        }
        for piece in more {
            let bytes = AtomicU64::new(piece.bytes());
            let piece = Piece { memory: piece.memory.clone(), bytes, ..*piece };
            let places =
                self.more.get_or_init(|| (0..PIECES_MAX).map(|_| OnceLock::new()).collect());
            if let Some(place) = places.iter().find(|place| place.get().is_none()) {
                let _ = place.set(piece);
            }
        }
        self.bytes.store(longer.bytes(), Release); // G1
        true
    }

    /// Returns how many bytes there are.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Acquire) // G1
    }

    /// Checks that so many bytes from an offset on all lie in the area.
    #[inline]
    pub fn check(&self, offset: u64, bytes: u64) -> Result<(), OutOfRange> {
        OutOfRange::check(offset as usize, bytes as usize, self.bytes() as usize)
    }

    /// Returns in which mapping, and from where on, so many bytes lie; `None` where no piece has them all.
    ///
    /// # Errors
    /// They do not all lie in the area.
    pub fn in_one(
        &self,
        offset: u64,
        bytes: u64,
    ) -> Result<Option<(&Arc<SharedMapping>, usize)>, OutOfRange> {
        self.check(offset, bytes)?;
        let holds = |piece: &&Piece| piece.start <= offset && offset + bytes <= piece.end();
        let found = self.all().find(holds);
        Ok(found.map(|piece| (&piece.memory, piece.at + (offset - piece.start) as usize)))
    }

    /// Whether memory of this process, given by its addresses, is in part the area's own.
    pub fn meets(&self, memory: &Range<usize>) -> bool {
        let has_any = !memory.is_empty();
        has_any
            && self.all().any(|piece| {
                let start = piece.memory.as_ptr() as usize + piece.at;
                start < memory.end && memory.start < start + piece.bytes() as usize
            })
    }

    /// Copies bytes out into private memory.
    #[inline]
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        self.each(offset, into.len() as u64, |part, done| {
            part.memory.copy_out(part.at, &mut into[done..done + part.bytes])
        })
    }

    /// Copies private bytes in.
    #[inline]
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        self.each(offset, from.len() as u64, |part, done| {
            part.memory.copy_in(part.at, &from[done..done + part.bytes])
        })
    }

    /// Copies bytes to a place in another mapping, as a part of `whole` bytes that go there.
    pub fn read_to(
        &self,
        offset: u64,
        (into, at): (&SharedMapping, u64),
        bytes: u64,
        whole: u64,
    ) -> Result<(), OutOfRange> {
        self.each(offset, bytes, |part, done| {
            copy_part((part.memory, part.at), (into, at as usize + done), part.bytes, whole)
        })
    }

    /// Copies bytes from a place in another mapping, as a part of `whole` bytes that come from there.
    pub fn write_from(
        &self,
        offset: u64,
        (from, at): (&SharedMapping, u64),
        bytes: u64,
        whole: u64,
    ) -> Result<(), OutOfRange> {
        self.each(offset, bytes, |part, done| {
            copy_part((from, at as usize + done), (part.memory, part.at), part.bytes, whole)
        })
    }

    /// Sets bytes to a value.
    pub fn set(&self, offset: u64, bytes: u64, value: u8) -> Result<(), OutOfRange> {
        self.each(offset, bytes, |part, _| part.memory.fill(part.at, part.bytes, value))
    }

    /// Copies bytes to a place in this or another area as memmove(3) does.
    pub fn copy(&self, offset: u64, to: (&Self, u64), bytes: u64) -> Result<(), OutOfRange> {
        let mut done = 0;
        while done < bytes {
            done += self.copy_some(offset, to, (bytes, done), bytes)?;
        }
        Ok(())
    }

    /// Goes on with such a copy, of whose `bytes` so many are `done`: by `most` bytes or less, and one
    /// or more. Returns by how many. The end comes first where it would else be overwritten.
    pub fn copy_some(
        &self,
        offset: u64,
        (into, to): (&Self, u64),
        (bytes, done): (u64, u64),
        most: u64,
    ) -> Result<u64, OutOfRange> {
        self.check(offset, bytes)?;
        into.check(to, bytes)?;
        let left = bytes.saturating_sub(done);
        let most = left.min(most.max(1));
        let (from, target) = if to <= offset {
            let from = self.part(offset + done, most)?;
            (from, into.part(to + done, from.bytes as u64)?)
        } else {
            let from = self.part_before(offset + left, most)?;
            let target = into.part_before(to + left, from.bytes as u64)?;
            // The last of them, where the target's piece has room for fewer.
            (Part { at: from.at + from.bytes - target.bytes, ..from }, target)
        };
        copy_part((from.memory, from.at), (target.memory, target.at), target.bytes, bytes)?;
        Ok(target.bytes as u64)
    }

    /// Adds to a word and returns what it was. As all changes of words it is one step for everybody
    /// who changes the word by such a step, here or in another process, and all agree on their order.
    ///
    /// # Errors
    /// The word does not lie in the area, or its offset is no multiple of 8.
    #[inline]
    pub fn fetch_add(&self, offset: u64, more: u64) -> Result<u64, OutOfRange> {
        Ok(self.word(offset)?.fetch_add(more, SeqCst))
    }

    /// Stores `new` in a word that is `expected`; returns what it was, which says whether it did.
    ///
    /// # Errors
    /// As `fetch_add`.
    #[inline]
    pub fn compare_swap(&self, offset: u64, expected: u64, new: u64) -> Result<u64, OutOfRange> {
        let swapped = self.word(offset)?.compare_exchange(expected, new, SeqCst, SeqCst);
        Ok(swapped.unwrap_or_else(|found| found))
    }

    /// Stores `new` in a word and returns what it was.
    ///
    /// # Errors
    /// As `fetch_add`.
    #[inline]
    pub fn swap(&self, offset: u64, new: u64) -> Result<u64, OutOfRange> {
        Ok(self.word(offset)?.swap(new, SeqCst))
    }

    #[inline]
    fn word(&self, offset: u64) -> Result<&AtomicU64, OutOfRange> {
        let len = WORD_BYTES as usize;
        self.check(offset, WORD_BYTES)?;
        let part = match self.in_first(offset, WORD_BYTES) {
            Some(part) => part,
            None => self.part(offset, WORD_BYTES)?,
        };
        if offset % WORD_BYTES != 0 || part.bytes < len {
            let limit = self.bytes() as usize;
            return Err(OutOfRange { offset: offset as usize, len, limit });
        }
        // In its mapping, as `new` has seen, and aligned, since pieces are.
        Ok(shared_u64(part.memory.atomic_u64(part.at)))
    }

    /// Bytes that lie in the first piece, as those of most regions do: found by a comparison.
    #[inline(always)]
    fn in_first(&self, offset: u64, bytes: u64) -> Option<Part<'_>> {
        let piece = self.pieces.first()?;
        let left = piece.bytes().checked_sub(offset)?;
        let at = piece.at + offset as usize;
        (bytes <= left).then(|| Part { memory: &piece.memory, at, bytes: bytes as usize })
    }

    #[inline(always)]
    fn each(
        &self,
        offset: u64,
        bytes: u64,
        mut act: impl FnMut(Part<'_>, usize) -> Result<(), OutOfRange>,
    ) -> Result<(), OutOfRange> {
        self.check(offset, bytes)?;
        if let Some(part) = self.in_first(offset, bytes) {
            return act(part, 0);
        }
        let mut done = 0;
        while done < bytes {
            let part = self.part(offset + done, bytes - done)?;
            act(part, done as usize)?;
            done += part.bytes as u64;
        }
        Ok(())
    }

    /// The bytes from an offset on that lie in one piece: `most` or less, one or more.
    fn part(&self, offset: u64, most: u64) -> Result<Part<'_>, OutOfRange> {
        let piece = self.piece(offset, most)?;
        let skipped = offset - piece.start;
        let bytes = (piece.bytes() - skipped).min(most) as usize;
        Ok(Part { memory: &piece.memory, at: piece.at + skipped as usize, bytes })
    }

    /// The bytes up to an offset, which is not 0, that lie in one piece: `most` or less, one or more.
    fn part_before(&self, end: u64, most: u64) -> Result<Part<'_>, OutOfRange> {
        let piece = self.piece(end.wrapping_sub(1), 1)?;
        let bytes = (end - piece.start).min(most) as usize;
        let at = piece.at + (end - piece.start) as usize - bytes;
        Ok(Part { memory: &piece.memory, at, bytes })
    }

    /// The piece in which an offset lies, from which on `most` bytes are wanted.
    fn piece(&self, offset: u64, most: u64) -> Result<&Piece, OutOfRange> {
        let has = |piece: &&Piece| offset < piece.end();
        let place = self.pieces.partition_point(|piece| piece.start <= offset);
        let first = place.checked_sub(1).and_then(|at| self.pieces.get(at)).filter(has);
        first.or_else(|| self.piece_of_more(offset).filter(has)).ok_or_else(|| {
            let limit = self.bytes() as usize;
            OutOfRange { offset: offset as usize, len: most as usize, limit }
        })
    }

    /// The last of the later pieces that does not begin behind an offset.
    fn piece_of_more(&self, offset: u64) -> Option<&Piece> {
        let more = self.more.get()?;
        let begins = |place: &OnceLock<Piece>| place.get().is_some_and(|it| it.start <= offset);
        more.get(more.partition_point(begins).checked_sub(1)?)?.get()
    }

    fn all(&self) -> impl Iterator<Item = &Piece> + Clone {
        let more = self.more.get().into_iter().flat_map(|more| more.iter());
        self.pieces.iter().chain(more.map_while(OnceLock::get))
    }
}

#[cfg(all(test, not(loom)))]
#[path = "area_tests.rs"]
mod tests;
