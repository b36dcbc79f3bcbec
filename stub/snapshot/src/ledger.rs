//! What a producer remembers of its pages: when each was last written, and which state each slot
//! of the pool holds. From both follows what has to be copied for the next version.
//!
//! Positions count bytes from the page in which the region begins, so a page here is a page of the
//! program's memory.

use std::ops::Range;

use heliostat_abi::snapshot::memory::{Shape, CHUNK_BYTES};

/// Bytes of a page, the grain of what is written and copied.
pub const PAGE_BYTES: usize = 4096;
const PAGES_PER_CHUNK: usize = CHUNK_BYTES / PAGE_BYTES;

/// A slot of the pool: of which chunk, in which colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolSlot {
    /// Which chunk of the region lies there.
    pub chunk: usize,
    /// In which of its slots.
    pub colour: usize,
}

/// The books of one region.
#[derive(Clone, Debug)]
pub struct Ledger {
    shape: Shape,
    /// Per page, the version that first has its last change.
    changed: Vec<u64>,
    /// Per chunk, the newest of its pages.
    newest: Vec<u64>,
    /// Per chunk and colour, the version whose bytes the slot holds; 0 for none.
    holds: Vec<u64>,
}

impl Ledger {
    /// Books in which every page changed for version 1, and no slot holds anything.
    pub fn new(shape: Shape) -> Self {
        let chunks = shape.chunks as usize;
        Self {
            shape,
            changed: vec![1; chunks * PAGES_PER_CHUNK],
            newest: vec![1; chunks],
            holds: vec![0; chunks * shape.colours as usize],
        }
    }

    /// Notes under `number` that `bytes` were written. Answers the bytes of whole pages that were
    /// not noted after version `since` before.
    pub fn note(&mut self, bytes: Range<usize>, number: u64, since: u64) -> usize {
        let span = self.shape.span();
        let bytes = bytes.start.max(span.start)..bytes.end.min(span.end);
        if bytes.is_empty() {
            return 0;
        }
        let pages = bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES);
        let fresh = self.changed[pages.clone()].iter().filter(|known| **known <= since).count();
        self.changed[pages.clone()].fill(number);
        let chunks = pages.start / PAGES_PER_CHUNK..pages.end.div_ceil(PAGES_PER_CHUNK);
        self.newest[chunks].fill(number);
        fresh * PAGE_BYTES
    }

    /// True when `chunk` changed after version `number`.
    pub fn is_changed_since(&self, chunk: usize, number: u64) -> bool {
        self.newest[chunk] > number
    }

    /// The colour for a chunk that changed: of those that no version alive shows (a bit per colour
    /// in `shown`), the one whose slot is nearest to now.
    pub fn choose(&self, chunk: usize, shown: u32) -> Option<usize> {
        let free = (0..self.shape.colours as usize).filter(|colour| shown & 1 << colour == 0);
        free.max_by_key(|colour| self.held(chunk, *colour))
    }

    /// Runs of `chunk`'s bytes that changed since its slot of `colour` was filled.
    pub fn stale(&self, chunk: usize, colour: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let held = self.held(chunk, colour);
        self.runs(chunk, move |changed| changed > held)
    }

    /// Those of them that no slot has: they are to be had from the memory itself, and only now.
    pub fn unsaved(&self, chunk: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let best = self.held(chunk, self.nearest(chunk));
        self.runs(chunk, move |changed| changed > best)
    }

    /// The others, and the colour of the slot that has them.
    pub fn saved(
        &self,
        chunk: usize,
        colour: usize,
    ) -> (usize, impl Iterator<Item = Range<usize>> + '_) {
        let nearest = self.nearest(chunk);
        let (held, best) = (self.held(chunk, colour), self.held(chunk, nearest));
        (nearest, self.runs(chunk, move |changed| held < changed && changed <= best))
    }

    /// The colour whose slot of `chunk` is nearest to now.
    fn nearest(&self, chunk: usize) -> usize {
        let colours = 0..self.shape.colours as usize;
        colours.max_by_key(|colour| self.held(chunk, *colour)).unwrap_or(0)
    }

    /// Runs of `chunk`'s bytes in pages of which `is_wanted` says so, by their last change.
    fn runs<'a>(
        &'a self,
        chunk: usize,
        is_wanted: impl Fn(u64) -> bool + 'a,
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        let (first, span) = (chunk * PAGES_PER_CHUNK, self.shape.span());
        let pages = &self.changed[first..first + PAGES_PER_CHUNK];
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at + pages[at..].iter().position(|changed| is_wanted(*changed))?;
            let run = pages[start..].iter().take_while(|changed| is_wanted(**changed)).count();
            at = start + run;
            let bytes = (first + start) * PAGE_BYTES..(first + start + run) * PAGE_BYTES;
            Some(bytes.start.max(span.start)..bytes.end.min(span.end))
        })
        .filter(|run| !run.is_empty())
    }

    /// The slot of `chunk` in `colour` holds version `number` now.
    pub fn filled(&mut self, chunk: usize, colour: usize, number: u64) {
        self.holds[chunk * self.shape.colours as usize + colour] = number;
    }

    /// True for a slot that holds nothing yet.
    pub fn is_unused(&self, chunk: usize, colour: usize) -> bool {
        self.held(chunk, colour) == 0
    }

    fn held(&self, chunk: usize, colour: usize) -> u64 {
        self.holds[chunk * self.shape.colours as usize + colour]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(length: usize, first: u32) -> Ledger {
        Ledger::new(Shape::new(1, length as u64, first, 3).unwrap())
    }

    #[test]
    fn the_first_version_takes_the_region_and_nothing_around_it() {
        let books = ledger(CHUNK_BYTES, 100);
        let runs: Vec<_> = (0..2).flat_map(|chunk| books.stale(chunk, 0)).collect();
        assert_eq!(runs, [100..CHUNK_BYTES, CHUNK_BYTES..CHUNK_BYTES + 100]);
    }

    #[test]
    fn a_slot_filled_before_takes_only_what_changed_since() {
        let mut books = ledger(4 * CHUNK_BYTES, 0);
        for chunk in 0..4 {
            books.filled(chunk, 0, 1);
        }
        assert_eq!(books.note(5 * PAGE_BYTES + 1..6 * PAGE_BYTES + 1, 2, 1), 2 * PAGE_BYTES);
        assert_eq!(books.note(5 * PAGE_BYTES..6 * PAGE_BYTES, 2, 1), 0);
        books.note(3 * CHUNK_BYTES - 1..3 * CHUNK_BYTES + 1, 2, 1);
        let changed: Vec<_> = (0..4).filter(|chunk| books.is_changed_since(*chunk, 1)).collect();
        assert_eq!(changed, [0, 2, 3]);
        assert_eq!(books.choose(0, 0b001), Some(2));
        assert_eq!(books.choose(0, 0b110), Some(0));
        assert_eq!(books.choose(0, 0b111), None);
        assert_eq!(books.stale(0, 0).count(), 1);
        assert_eq!(books.stale(0, 0).next(), Some(5 * PAGE_BYTES..7 * PAGE_BYTES));
        books.filled(0, 0, 2);
        assert_eq!(books.stale(0, 0).count(), 0);
    }

    #[test]
    fn of_a_slot_never_used_only_what_no_other_slot_has_must_come_from_memory() {
        let mut books = ledger(CHUNK_BYTES, 0);
        assert!(books.unsaved(0).eq(std::iter::once(0..CHUNK_BYTES)));
        books.filled(0, 2, 1);
        books.note(5 * PAGE_BYTES..6 * PAGE_BYTES, 2, 1);
        books.filled(0, 1, 2);
        books.note(7 * PAGE_BYTES..8 * PAGE_BYTES, 3, 2);
        assert!(books.unsaved(0).eq(std::iter::once(7 * PAGE_BYTES..8 * PAGE_BYTES)));
        let saved = |colour, wanted: &[Range<usize>]| {
            let (from, runs) = books.saved(0, colour);
            assert_eq!((from, runs.collect::<Vec<_>>().as_slice()), (1, wanted));
        };
        saved(0, &[0..7 * PAGE_BYTES, 8 * PAGE_BYTES..CHUNK_BYTES]);
        saved(2, std::slice::from_ref(&(5 * PAGE_BYTES..6 * PAGE_BYTES)));
        saved(1, &[]);
    }

    #[test]
    fn what_lies_outside_the_region_is_never_noted() {
        let mut books = ledger(100, 50);
        assert_eq!(books.note(0..50, 2, 1), 0);
        assert_eq!(books.note(150..PAGE_BYTES, 2, 1), 0);
        assert_eq!(books.note(149..PAGE_BYTES * 9, 2, 1), PAGE_BYTES);
        assert_eq!(books.stale(0, 0).count(), 1);
        assert_eq!(books.stale(0, 0).next(), Some(50..150));
    }
}
