//! Reading ahead: how far beyond a read the next blocks are fetched.
//!
//! A reader that goes on where it stopped is likely to go on. Each time it does, twice as much is
//! fetched ahead, up to a limit; the first read elsewhere ends it. Random readers fetch nothing that
//! they did not ask for.

use std::ops::Range;

/// Most blocks fetched ahead: 2 MiB, some 1 ms of a fast disk.
pub const AHEAD_BLOCKS_MAX: u64 = 32;
/// Blocks fetched ahead once a reader has gone on for the first time.
const AHEAD_BLOCKS_FIRST: u64 = 2;

/// One reader of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ahead {
    /// Byte behind the last read.
    next: u64,
    /// Blocks to keep fetched; 0 until it has gone on once.
    width: u64,
    /// Block behind those that were asked for already.
    reached: u64,
}

impl Ahead {
    /// Whether a read there goes on where the last one stopped.
    pub fn goes_on(&self, offset: u64) -> bool {
        offset == self.next && offset != 0
    }

    /// A read of `[offset, offset + bytes)` begins; answers which blocks behind it to fetch.
    pub fn begin(&mut self, offset: u64, bytes: u64, block_bytes: u64) -> Range<u64> {
        let goes_on = self.goes_on(offset);
        let end = offset.saturating_add(bytes);
        self.next = end;
        let behind = end.div_ceil(block_bytes.max(1));
        if !goes_on {
            (self.width, self.reached) = (0, behind);
            return behind..behind;
        }
        // Twice as far only when what was fetched is used up by half, so that small reads do not
        // widen it before it has been of use.
        let left = self.reached.saturating_sub(behind);
        if left * 2 > self.width {
            return behind..behind;
        }
        self.width = (self.width * 2).clamp(AHEAD_BLOCKS_FIRST, AHEAD_BLOCKS_MAX);
        let from = self.reached.max(behind);
        self.reached = behind.saturating_add(self.width).max(from);
        from..self.reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 100;

    #[test]
    fn who_goes_on_is_read_ahead_for_ever_further_and_nothing_twice() {
        let (mut ahead, mut fetched) = (Ahead::default(), Vec::new());
        for read in 0..40 {
            fetched.extend(ahead.begin(read * BLOCK, BLOCK, BLOCK));
        }
        let in_order: Vec<u64> = (2..2 + fetched.len() as u64).collect();
        assert_eq!(fetched, in_order);
        assert!(fetched.len() >= 40, "{}", fetched.len());
        assert!(fetched.len() as u64 <= 40 + AHEAD_BLOCKS_MAX);
    }

    #[test]
    fn random_readers_fetch_nothing_more() {
        let mut ahead = Ahead::default();
        for offset in [0, 500, 300, 5000, 0] {
            assert!(ahead.begin(offset, 50, BLOCK).is_empty(), "{offset}");
        }
    }

    #[test]
    fn small_reads_in_order_fetch_a_little_at_first() {
        let mut ahead = Ahead::default();
        let fetched: Vec<_> = (0..20).map(|n| ahead.begin(n * 10, 10, BLOCK)).collect();
        let count: u64 = fetched.iter().map(|range| range.end - range.start).sum();
        assert!((2..=8).contains(&count), "{fetched:?}");
    }

    #[test]
    fn the_end_of_numbers_is_no_accident() {
        let mut ahead = Ahead::default();
        ahead.begin(u64::MAX - 10, 10, BLOCK);
        let range = ahead.begin(u64::MAX, u64::MAX, 1);
        assert!(range.start <= range.end);
    }
}
