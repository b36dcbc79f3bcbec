//! From which size on a device's own way is better, by what was measured there.
//!
//! ```text
//! size      64K   128K   256K   512K   1M  ...
//! direct     90    120    150    260   480 us
//! filled     70    110    190    380   760
//! better     no     no    yes    yes   yes      -> from 256K on
//! ```
//! The machine is busy while it is measured. So a size is judged by the best of several times, and the
//! fixed threshold gives way only to what is plain: below it the device has to be better by a tenth,
//! and from it on worse by a tenth.

use super::way::{DIRECT_FROM, DIRECT_FROM_MAX, DIRECT_FROM_MIN, NEVER};

/// Part of a time by which two of them have to differ for one to be the better.
const MARGIN: u64 = 10;

/// The best times of reads of one size, of which several are under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Bytes of a read.
    pub bytes: u64,
    /// Nanoseconds of one by the device's own way.
    pub direct_ns: u64,
    /// Nanoseconds of one through the cache, where none of it lies there.
    pub filled_ns: u64,
}

impl Sample {
    /// Whether such reads are to go to the device.
    fn is_direct(&self) -> bool {
        let (direct, filled) = (u128::from(self.direct_ns), u128::from(self.filled_ns));
        let (whole, more) = (u128::from(MARGIN), u128::from(MARGIN + 1));
        match self.bytes < DIRECT_FROM {
            true => direct * more <= filled * whole,
            false => direct * whole <= filled * more,
        }
    }
}

/// Returns the threshold that samples in order of size make plain; `NEVER` where the device's own way
/// is not better for the largest. Nothing where they do not reach the fixed threshold.
pub fn find(samples: &[Sample]) -> Option<u64> {
    samples.iter().find(|sample| sample.bytes >= DIRECT_FROM)?;
    let better = samples.iter().rev().take_while(|sample| sample.is_direct());
    let least = better.last().map(|sample| sample.bytes);
    Some(least.map_or(NEVER, |bytes| bytes.clamp(DIRECT_FROM_MIN, DIRECT_FROM_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1024;

    fn samples(list: &[(u64, u64, u64)]) -> Vec<Sample> {
        let sample = |(bytes, direct_ns, filled_ns): &(u64, u64, u64)| Sample {
            bytes: bytes * K,
            direct_ns: *direct_ns,
            filled_ns: *filled_ns,
        };
        list.iter().map(sample).collect()
    }

    #[test]
    fn the_least_size_from_which_on_the_device_is_better_counts() {
        let found = |list: &[_]| find(&samples(list));
        let measured = [(64, 90, 70), (128, 120, 110), (256, 150, 190), (512, 260, 380)];
        assert_eq!(found(&measured), Some(256 * K));
        let later = [(64, 10, 70), (128, 9, 8), (256, 190, 150), (512, 260, 380)];
        assert_eq!(found(&later), Some(512 * K), "what is better for small ones only is chance");
        assert_eq!(found(&[(64, 5, 10), (128, 5, 10), (256, 5, 10)]), Some(64 * K));
        assert_eq!(found(&[(64, 5, 10), (256, 20, 10)]), Some(NEVER));
    }

    #[test]
    fn the_fixed_threshold_gives_way_only_to_what_is_plain() {
        let found = |list: &[_]| find(&samples(list));
        assert_eq!(found(&[(128, 95, 100), (256, 95, 100)]), Some(256 * K));
        assert_eq!(found(&[(128, 90, 100), (256, 95, 100)]), Some(128 * K));
        assert_eq!(found(&[(128, 105, 100), (256, 105, 100)]), Some(256 * K));
        assert_eq!(found(&[(256, 111, 100), (512, 105, 100)]), Some(512 * K));
    }

    #[test]
    fn too_few_samples_decide_nothing() {
        assert_eq!(find(&[]), None);
        assert_eq!(find(&samples(&[(64, 1, 2), (128, 1, 2)])), None);
        let huge = [Sample { bytes: 64 << 20, direct_ns: 1, filled_ns: u64::MAX }];
        assert_eq!(find(&huge), Some(DIRECT_FROM_MAX));
    }
}
