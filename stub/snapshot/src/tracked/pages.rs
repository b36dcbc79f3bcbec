//! Sets of the pages of one chunk.

use std::ops::Range;

use heliostat_abi::snapshot::memory::CHUNK_BYTES;

use crate::ledger::PAGE_BYTES;

/// Pages of a chunk.
pub(super) const PAGES: usize = CHUNK_BYTES / PAGE_BYTES;
const WORDS: usize = PAGES / 64;

/// Some pages of a chunk, by their number in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageSet([u64; WORDS]);

impl PageSet {
    pub(super) const EMPTY: Self = Self([0; WORDS]);
    pub(super) const ALL: Self = Self([u64::MAX; WORDS]);

    /// Adds consecutive pages.
    pub(super) fn insert(&mut self, pages: Range<usize>) {
        pages.for_each(|page| self.0[page / 64] |= 1 << (page % 64));
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    pub(super) fn and(&self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    pub(super) fn minus(&self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    /// Less one page in `part`, the first among them.
    pub(super) fn without_each(&self, part: usize) -> Self {
        let (mut rest, mut before) = (*self, 0);
        for page in self.runs().flatten() {
            if before % part == 0 {
                rest.0[page / 64] &= !(1 << (page % 64));
            }
            before += 1;
        }
        rest
    }

    /// Runs of consecutive pages, in order.
    pub(super) fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let (set, mut at) = (*self, 0);
        std::iter::from_fn(move || {
            let start = set.next(at, true)?;
            at = set.next(start, false).unwrap_or(PAGES);
            Some(start..at)
        })
    }

    /// The first page from `at` on that is in the set, or is not.
    fn next(&self, at: usize, is_in: bool) -> Option<usize> {
        let flip = if is_in { 0 } else { u64::MAX };
        let mut from = at;
        while from < PAGES {
            let word = (self.0[from / 64] ^ flip) >> (from % 64);
            if word != 0 {
                return Some(from + word.trailing_zeros() as usize);
            }
            from = (from / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_was_put_in_also_across_words_and_at_the_ends() {
        let mut set = PageSet::EMPTY;
        let runs = [0..1, 3..5, 60..130, 192..256, PAGES - 1..PAGES];
        runs.iter().for_each(|run| set.insert(run.clone()));
        assert_eq!(set.runs().collect::<Vec<_>>(), runs);
        assert_eq!(set.len(), 1 + 2 + 70 + 64 + 1);
        assert_eq!(PageSet::ALL.runs().collect::<Vec<_>>(), vec![0..PAGES]);
        assert_eq!(PageSet::EMPTY.runs().count(), 0);
        assert!(set.minus(PageSet::ALL).is_empty());
        assert_eq!(set.and(PageSet::ALL), set);
    }

    #[test]
    fn one_page_in_so_many_is_left_out_and_one_at_least() {
        let mut set = PageSet::EMPTY;
        set.insert(100..133);
        let rest = set.without_each(16);
        assert_eq!(rest.runs().collect::<Vec<_>>(), [101..116, 117..132]);
    }
}
