//! The words by which everybody learns whether a memory region may be used.
//!
//! The control plane alone writes them, the layout is `abi::memory::page`. Readers map the page
//! read-only, and look at a region's word before each operation on it.
//!
//! Orders: `W1` what the control plane has put down of a region, and the end of a move's copies, before
//! the word that says so.

use std::sync::Arc;

use heliostat_abi::memory::page::{state, word, word_at, State};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;

use crate::sync::shared_u64;
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Release};

/// The page, mapped.
#[derive(Clone, Debug)]
pub struct RegionPage(Arc<SharedMapping>);

/// Where a region's word lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordPlace(usize);

impl RegionPage {
    /// Of a mapped page; a region beyond its end is gone.
    pub fn new(page: Arc<SharedMapping>) -> Self {
        Self(page)
    }

    /// Returns what holds for a region, and the epoch of its pieces.
    #[inline]
    pub fn state(&self, region: ObjectId) -> (State, u32) {
        match self.place(region) {
            Some(at) => look(shared_u64(self.0.atomic_u64(at)), region),
            None => (State::Gone, 0),
        }
    }

    /// Where a region's word lies, for [`Self::is`]; `None` beyond the page's end.
    pub fn place_of(&self, region: ObjectId) -> Option<WordPlace> {
        self.place(region).map(WordPlace)
    }

    /// Whether the word at a place is this one: one load and a comparison, where it is known what a region
    /// that may be used has.
    #[inline]
    pub fn is(&self, place: WordPlace, word: u64) -> bool {
        shared_u64(self.0.atomic_u64(place.0)).load(Acquire) == word // W1
    }

    /// Says what holds for a region. For the control plane, whose mapping may be written.
    pub fn set(&self, region: ObjectId, state: State, epoch: u32) {
        if let Some(at) = self.place(region) {
            tell(shared_u64(self.0.atomic_u64(at)), region, state, epoch);
        }
    }

    fn place(&self, region: ObjectId) -> Option<usize> {
        word_at(region.index).filter(|at| at + 8 <= self.0.len())
    }
}

/// What a word says of a region.
#[inline]
pub(crate) fn look(at: &AtomicU64, region: ObjectId) -> (State, u32) {
    state(at.load(Acquire), region) // W1
}

/// Has a word say it.
pub(crate) fn tell(at: &AtomicU64, region: ObjectId, state: State, epoch: u32) {
    at.store(word(region, state, epoch), Release); // W1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use heliostat_abi::memory::page::HEADER_BYTES;

    use super::*;

    #[test]
    fn a_region_is_what_its_word_says_and_beyond_the_page_it_is_gone() {
        let page = SharedMapping::create(c"regions", HEADER_BYTES + 4096).unwrap().1;
        let page = RegionPage::new(Arc::new(page));
        let region = ObjectId { index: 511, generation: 3 };
        assert_eq!(page.state(region).0, State::Gone);
        page.set(region, State::Live, 9);
        assert_eq!(page.state(region), (State::Live, 9));
        let place = page.place_of(region).unwrap();
        assert!(page.is(place, word(region, State::Live, 9)));
        assert!(!page.is(place, word(region, State::Live, 8)));
        assert!(!page.is(place, word(region, State::Moving, 9)));
        assert_eq!(page.state(ObjectId { generation: 4, ..region }).0, State::Gone);
        let beyond = ObjectId { index: 512, generation: 3 };
        page.set(beyond, State::Live, 9);
        assert_eq!(page.state(beyond).0, State::Gone);
        assert_eq!(page.place_of(beyond), None);
        assert_eq!(page.state(ObjectId { index: u32::MAX, ..region }).0, State::Gone);
    }
}
