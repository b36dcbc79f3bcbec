//! The region page: one word a region, by which who maps arenas learns that a region is gone.
//!
//! ```text
//! 0     magic u32, version u32, places u64
//! 4096  words u64 x REGIONS_MAX
//!
//! word  bits 0..1 state, 2..31 generation, 32..63 epoch
//!       0 gone   its generation is the next one: it matches neither the old region nor a new one
//!       1 live
//!       2 moving  nobody begins to use it; its pieces are other ones when it is live again
//! ```
//!
//! The control plane writes it, sessions that map arenas read it. The epoch moves on whenever the
//! pieces of the region change. A region whose word is gone keeps its bytes until every handle on it
//! is given back, so a reader that looked at the word just before reads what it may, and never
//! another region's bytes.

use super::limits::{REGIONS_MAX, REGION_PAGE_HEAD_BYTES};
use crate::name::ObjectId;

/// First four bytes of the page: "HMEM".
pub const MAGIC: u32 = u32::from_le_bytes(*b"HMEM");
/// Bytes in front of the words.
pub const HEADER_BYTES: usize = REGION_PAGE_HEAD_BYTES;
/// Offset of the number of words.
pub const PLACES: usize = 8;

/// What holds for a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It was freed, or its last manager has ended.
    Gone,
    /// It may be used.
    Live,
    /// Its bytes are on their way to other pieces.
    Moving,
}

/// Offset of a region's word; `None` beyond the page.
pub const fn word_at(index: u32) -> Option<usize> {
    if index as usize >= REGIONS_MAX {
        return None;
    }
    Some(HEADER_BYTES + index as usize * 8)
}

/// The word of a region that is there.
pub const fn word(region: ObjectId, state: State, epoch: u32) -> u64 {
    let state = match state {
        State::Gone => 0,
        State::Live => 1,
        State::Moving => 2,
    };
    (epoch as u64) << 32 | (region.generation as u64 & 0x3fff_ffff) << 2 | state
}

/// State and epoch of a region according to its word: of another generation it is gone.
pub const fn state(word: u64, region: ObjectId) -> (State, u32) {
    let epoch = (word >> 32) as u32;
    if (word as u32) >> 2 != region.generation & 0x3fff_ffff {
        return (State::Gone, epoch);
    }
    match word & 3 {
        1 => (State::Live, epoch),
        2 => (State::Moving, epoch),
        _ => (State::Gone, epoch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_of_its_own_generation_only() {
        let region = ObjectId { index: 5, generation: 7 };
        let next = ObjectId { index: 5, generation: 8 };
        let live = word(region, State::Live, 9);
        assert_eq!(state(live, region), (State::Live, 9));
        assert_eq!(state(live, next).0, State::Gone);
        assert_eq!(state(word(region, State::Moving, u32::MAX), region), (State::Moving, u32::MAX));
        assert_eq!(state(word(next, State::Gone, 0), region).0, State::Gone);
        assert_eq!(state(0, ObjectId::default()).0, State::Gone);
    }

    #[test]
    fn words_lie_in_the_page() {
        use crate::memory::limits::REGION_PAGE_BYTES;
        let last = REGIONS_MAX as u32 - 1;
        assert_eq!(word_at(last).map(|at| at + 8), Some(REGION_PAGE_BYTES));
        assert_eq!(word_at(last + 1), None);
    }
}
