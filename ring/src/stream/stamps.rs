//! When a lane became readable: stamps of the last publications, for who reads many lanes.
//!
//! The kernel hands out descriptors in the order in which they became ready, whoever wrote. Lanes of
//! different peers have no order of their own, but processors of one machine have one cycle counter.
//! The writer stamps what it publishes, in the line that it writes anyway, and only where the reader
//! asked for it. A stamp says nothing about bytes, and a false one is brought within the time in
//! which the reader itself saw the lane become readable: nothing is decided by it but an order.

use heliostat_abi::stream::channel::direction as at;
#[cfg(not(loom))]
use heliostat_base::clock;

use super::{Lane, Place};
#[cfg(not(loom))]
use crate::sync::Ordering::Relaxed;

#[cfg(not(loom))]
impl<P: Place> Lane<P> {
    /// The reader wants to know when what it reads was published.
    pub fn want_stamps(&self) {
        self.place.u32(at::STAMPS_WANTED).store(1, Relaxed);
    }

    /// The first publication from `since` to `now` among the last three; `since` if there is none,
    /// because what was stamped before it may have been seen only after it.
    pub fn published_since(&self, since: u64, now: u64) -> u64 {
        let stamps = (0..at::STAMPS_KEPT).map(|place| self.stamp_at(place).load(Relaxed));
        stamps.filter(|stamp| (since..=now).contains(stamp)).min().unwrap_or(since)
    }

    /// Before something is published. It may be visible later than it says, never earlier.
    #[inline(always)]
    pub(super) fn stamp(&self) {
        if self.place.u32(at::STAMPS_WANTED).load(Relaxed) == 0 {
            return;
        }
        let next = self.place.u32(at::NEXT_STAMP);
        let place = next.load(Relaxed);
        self.stamp_at(place).store(clock::cycles(), Relaxed);
        next.store(place.wrapping_add(1) % at::STAMPS_KEPT, Relaxed);
    }

    pub(super) fn forget_stamps(&self) {
        for place in 0..at::STAMPS_KEPT {
            self.stamp_at(place).store(0, Relaxed);
        }
        self.place.u32(at::STAMPS_WANTED).store(0, Relaxed);
        self.place.u32(at::NEXT_STAMP).store(0, Relaxed);
    }

    /// A foreign number is brought within the stamps.
    #[inline(always)]
    fn stamp_at(&self, place: u32) -> &crate::sync::AtomicU64 {
        self.place.u64(at::STAMPS + (place % at::STAMPS_KEPT) as usize * 8)
    }
}

/// Loom has no clock; no order of memory depends on a stamp.
#[cfg(loom)]
impl<P: Place> Lane<P> {
    pub(super) fn stamp(&self) {}

    pub(super) fn forget_stamps(&self) {}
}

#[cfg(loom)]
const _: usize = at::STAMPS;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::IoSlice;
    use std::sync::Arc;

    use heliostat_base::mapping::SharedMapping;

    use super::*;
    use crate::stream::WriteCache;

    fn lane() -> Lane {
        let (_fd, memory) = SharedMapping::create(c"stamps", 8192).unwrap();
        let lane = Lane::new(&Arc::new(memory), 0, 4096, 64).unwrap();
        lane.reset(0);
        lane
    }

    #[test]
    fn the_first_publication_since_a_time_is_told_of_the_last_three() {
        let (lane, mut cache) = (lane(), WriteCache::new());
        lane.want_stamps();
        let mut between = vec![clock::cycles()];
        for _ in 0..5 {
            lane.write(&[IoSlice::new(b"x")], &mut cache).unwrap();
            between.push(clock::cycles());
        }
        let told = |at: usize| lane.published_since(between[at], between[5]);
        for at in 2..5 {
            assert!((between[at]..=between[at + 1]).contains(&told(at)), "{at}");
        }
        assert!(told(0) == told(2) && told(1) == told(2), "the third last counts");
        assert_eq!(told(5), between[5]);
    }

    #[test]
    fn nothing_is_stamped_for_who_did_not_ask() {
        let (lane, mut cache) = (lane(), WriteCache::new());
        lane.write(&[IoSlice::new(b"x")], &mut cache).unwrap();
        assert_eq!(lane.published_since(1, u64::MAX), 1);
    }

    #[test]
    fn foreign_stamps_are_brought_within_the_time_and_foreign_places_within_the_line() {
        let (lane, mut cache) = (lane(), WriteCache::new());
        lane.want_stamps();
        for number in [0, 1, 99, 101, u64::MAX] {
            (0..3).for_each(|place| lane.stamp_at(place).store(number, Relaxed));
            assert_eq!(lane.published_since(99, 100), 99);
        }
        lane.place.u32(at::NEXT_STAMP).store(u32::MAX, Relaxed);
        lane.write(&[IoSlice::new(b"x")], &mut cache).unwrap();
        assert!(lane.place.u32(at::NEXT_STAMP).load(Relaxed) < at::STAMPS_KEPT);
    }
}
