//! What a descriptor's word says of an open file.
//!
//! ```text
//!             31..28  27    26      25..16     15..0
//! candidate   5       kept  shared  in flight  reads counted so far
//! described   6       kept                     its place in the table of descriptions
//! ```
//! A candidate was opened for reading only, and nothing more is known of it: open(2) stores one
//! word, and a file that is closed after a few reads has cost no more than that.

use crate::table;

const CANDIDATE: u32 = 5 << 28;
const DESCRIBED: u32 = 6 << 28;
const KEPT: u32 = 1 << 27;
const SHARED: u32 = 1 << 26;
const FLIGHT: u32 = 1 << 16;
const FLIGHT_MASK: u32 = 0x3ff << 16;
const READS_MASK: u32 = 0xffff;

/// A word, seen once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(pub u32);

impl Word {
    /// A file just opened. `is_kept` when exec(2) leaves the descriptor open.
    pub fn candidate(is_kept: bool) -> Self {
        Self(CANDIDATE | if is_kept { KEPT } else { 0 })
    }

    /// A file with a description.
    pub fn described(index: u32, is_kept: bool) -> Self {
        Self(DESCRIBED | if is_kept { KEPT } else { 0 } | index)
    }

    /// What the table says of `fd` now.
    #[inline(always)]
    pub fn of(fd: i32) -> Self {
        Self(table::file(fd))
    }

    /// False for a descriptor that is no open file of ours.
    #[inline(always)]
    pub fn is_file(self) -> bool {
        self.0 != 0
    }

    /// Place of its description, if it has one.
    #[inline(always)]
    pub fn index(self) -> Option<u32> {
        (self.0 >= DESCRIBED).then_some(self.0 & READS_MASK)
    }

    /// True when exec(2) may leave the descriptor open.
    pub fn is_kept(self) -> bool {
        self.0 & KEPT != 0
    }

    /// The same, kept or not.
    pub fn with_kept(self, is_kept: bool) -> Self {
        Self(if is_kept { self.0 | KEPT } else { self.0 & !KEPT })
    }

    /// A candidate whose offset another process may move. Only of candidates.
    pub fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    /// The same candidate, its offset shared.
    pub fn with_shared(self) -> Self {
        Self(self.0 | SHARED)
    }

    /// Calls of a candidate that are moving the kernel's offset now.
    pub fn in_flight(self) -> u32 {
        (self.0 & FLIGHT_MASK) / FLIGHT
    }

    /// Reads of a candidate so far, up to 65,535.
    pub fn reads(self) -> u32 {
        self.0 & READS_MASK
    }

    /// The candidate after `weight` more, at most the most that can be counted.
    pub fn with_reads(self, weight: u32) -> Self {
        let reads = (self.reads() + weight).min(READS_MASK);
        Self(self.0 & !READS_MASK | reads)
    }

    /// One more call in flight; `None` when no more can be counted.
    pub fn take_off(self) -> Option<Self> {
        (self.0 & FLIGHT_MASK != FLIGHT_MASK).then_some(Self(self.0 + FLIGHT))
    }

    /// One less.
    pub fn land(self) -> Self {
        Self(if self.in_flight() == 0 { self.0 } else { self.0 - FLIGHT })
    }
}

/// Changes the word of `fd` as long as it is a candidate; the word after that, or `None` when it
/// is none, or `change` wants none.
pub fn change_candidate(fd: i32, change: impl Fn(Word) -> Option<Word>) -> Option<Word> {
    loop {
        let seen = Word::of(fd);
        if !seen.is_file() || seen.index().is_some() {
            return None;
        }
        let next = change(seen)?;
        if next == seen || table::change_file(fd, seen.0, next.0) {
            return Some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_counts_reads_and_calls_apart() {
        let word = Word::candidate(true).with_reads(3).with_reads(70_000);
        assert_eq!((word.reads(), word.in_flight(), word.is_kept()), (65_535, 0, true));
        let flying = word.take_off().and_then(Word::take_off).unwrap();
        assert_eq!((flying.in_flight(), flying.reads()), (2, 65_535));
        assert_eq!(flying.land().land().land(), word);
        assert!(!word.is_shared() && word.with_shared().is_shared());
        assert_eq!(word.index(), None);
        let full = (0..1023).try_fold(word, |word, _| word.take_off()).unwrap();
        assert_eq!((full.take_off(), full.in_flight()), (None, 1023));
    }

    #[test]
    fn a_described_file_knows_its_place() {
        let word = Word::described(4095, false);
        assert_eq!((word.index(), word.is_kept()), (Some(4095), false));
        assert_eq!(word.with_kept(true).with_kept(false), word);
        assert!(Word(0).index().is_none() && !Word(0).is_file());
    }
}
