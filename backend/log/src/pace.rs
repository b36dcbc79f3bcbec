//! Whether another batch is begun beside those that are under way: by how long one takes alone.
//!
//! Batches that overlap take longer, each for the others: judged by that, one hiccup of the device would
//! have them overlap for ever where one at a time is best. So only what was alone is counted, and now and
//! then one is.

use std::time::Duration;

/// Of so many batches that overlap one is made alone, and timed.
const ALONE_EVERY: u32 = 256;
/// One hiccup counts as so many times the limit at most.
const COUNTED_MOST: u32 = 2;

/// What is known of a device's batches.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How long one takes alone, as an average that forgets.
    takes: Duration,
    overlap_from: Duration,
    /// Batches since one was alone.
    since: u32,
}

impl Pace {
    pub(crate) fn new(overlap_from: Duration) -> Pace {
        Pace { takes: Duration::ZERO, overlap_from, since: 0 }
    }

    /// Whether a batch takes so long that the next one had better not wait.
    pub(crate) fn overlaps(&self) -> bool {
        self.takes >= self.overlap_from && (self.since < ALONE_EVERY || self.is_sure())
    }

    /// A batch has ended; `alone` where no other was under way meanwhile.
    pub(crate) fn count(&mut self, took: Duration, alone: bool) {
        self.since = if alone { 0 } else { self.since.saturating_add(1) };
        if alone {
            let counted = took.min(self.overlap_from.saturating_mul(COUNTED_MOST));
            self.takes = self.takes.saturating_mul(7).saturating_add(counted) / 8;
        }
    }

    /// Nothing is too short to overlap.
    fn is_sure(&self) -> bool {
        self.overlap_from.is_zero()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(250);

    #[test]
    fn a_slow_device_overlaps_and_a_hiccup_of_a_quick_one_does_not() {
        let mut quick = Pace::new(LIMIT);
        (0..50).for_each(|_| quick.count(LIMIT / 5, true));
        quick.count(LIMIT * 1000, true);
        assert!(!quick.overlaps());
        let mut slow = Pace::new(LIMIT);
        (0..50).for_each(|_| slow.count(LIMIT * 4, true));
        assert!(slow.overlaps());
    }

    #[test]
    fn what_overlaps_is_timed_alone_now_and_then_and_comes_to_its_end() {
        let mut pace = Pace::new(LIMIT);
        (0..50).for_each(|_| pace.count(LIMIT * 4, true));
        let mut alone = 0;
        for _ in 0..20 * ALONE_EVERY {
            let is_alone = !pace.overlaps();
            alone += u32::from(is_alone);
            pace.count(if is_alone { LIMIT / 5 } else { LIMIT * 4 }, is_alone);
        }
        assert!(!pace.overlaps() && alone > ALONE_EVERY, "{alone}");
    }

    #[test]
    fn with_the_longest_limit_none_overlap() {
        let mut pace = Pace::new(Duration::MAX);
        (0..50).for_each(|_| pace.count(LIMIT, true));
        (0..50).for_each(|_| pace.count(Duration::MAX, true));
        assert!(!pace.overlaps());
    }

    #[test]
    fn without_a_limit_all_overlap() {
        let mut pace = Pace::new(Duration::ZERO);
        (0..2 * ALONE_EVERY).for_each(|_| pace.count(LIMIT, false));
        assert!(pace.overlaps());
    }
}
