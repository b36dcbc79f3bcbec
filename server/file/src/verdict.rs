//! From which size on a device's own way is better, by what was measured there.
//!
//! ```text
//! size               64K  128K  256K  512K   1M
//! direct              90   120   150   260  480 us
//! filled              70   110   190   380  760
//! loss from 64K on    28     9     0     0    0 %   the way that is taken, against the better one
//!          256K on     0     0     0     0    0     <- least in sum
//!          never       0     0    26    46   58
//! ```
//! The machine is busy while it is measured. So a size is judged by the best of several times, none can
//! lose more than all, one that is out of line decides nothing by itself, and the fixed threshold gives
//! way only where it loses a tenth more than the best.

use super::way::{DIRECT_FROM, DIRECT_FROM_MAX, DIRECT_FROM_MIN, NEVER};

/// Percent that the fixed threshold has to lose against the best one.
const MARGIN: u64 = 10;
/// Percent that one size loses at most.
const LOSS_MAX: u64 = 100;
/// Times that a size has to be measured for it to count.
const TIMES_MIN: u32 = 2;

/// The best times of reads of one size, of which several are under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeTimes {
    /// Bytes of a read.
    pub bytes: u64,
    /// Nanoseconds of one by the device's own way.
    pub direct_ns: u64,
    /// Nanoseconds of one through the cache, where none of it lies there.
    pub filled_ns: u64,
    /// Times that both were measured.
    pub times: u32,
}

impl SizeTimes {
    /// What such reads lose by one of the ways, in percent of the better one.
    fn loss(&self, is_direct: bool) -> u64 {
        let taken = if is_direct { self.direct_ns } else { self.filled_ns };
        let least = self.direct_ns.min(self.filled_ns).max(1);
        ((taken - least.min(taken)).saturating_mul(100) / least).min(LOSS_MAX)
    }
}

/// Returns the threshold by which samples lose least; `NEVER` where that is the cache for all of them.
/// Nothing where they do not reach the fixed threshold.
pub fn find(samples: &[SizeTimes]) -> Option<u64> {
    let counts = || samples.iter().filter(|sample| sample.times >= TIMES_MIN);
    counts().find(|sample| sample.bytes >= DIRECT_FROM)?;
    let loss = |from: u64| counts().map(|it| it.loss(it.bytes >= from)).sum::<u64>();
    let best = counts().map(|sample| sample.bytes).chain([NEVER]).min_by_key(|from| loss(*from))?;
    Some(match best {
        _ if loss(best) + MARGIN > loss(DIRECT_FROM) => DIRECT_FROM,
        NEVER => NEVER,
        bytes => bytes.clamp(DIRECT_FROM_MIN, DIRECT_FROM_MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1024;

    fn samples(list: &[(u64, u64, u64)]) -> Vec<SizeTimes> {
        let sample = |(bytes, direct_ns, filled_ns): &(u64, u64, u64)| SizeTimes {
            bytes: bytes * K,
            direct_ns: *direct_ns,
            filled_ns: *filled_ns,
            times: TIMES_MIN,
        };
        list.iter().map(sample).collect()
    }

    fn found(list: &[(u64, u64, u64)]) -> Option<u64> {
        find(&samples(list))
    }

    #[test]
    fn the_size_from_which_on_the_device_is_better_counts() {
        let measured = [(64, 90, 70), (128, 120, 110), (256, 150, 190), (512, 260, 380)];
        assert_eq!(found(&measured), Some(256 * K));
        let later = [(64, 80, 70), (128, 9, 8), (256, 190, 150), (512, 260, 380)];
        assert_eq!(found(&later), Some(512 * K));
        assert_eq!(found(&[(64, 5, 10), (128, 5, 10), (256, 5, 10)]), Some(64 * K));
        assert_eq!(found(&[(64, 20, 10), (256, 20, 10)]), Some(NEVER));
    }

    /// As measured once on a machine that was busy with other things.
    #[test]
    fn one_size_that_is_out_of_line_decides_nothing() {
        let measured = [
            (64, 498, 280),
            (128, 159, 329),
            (256, 668, 1053),
            (512, 997, 1213),
            (1024, 1080, 1204),
            (2048, 5001, 6304),
            (4096, 14762, 7198),
        ];
        assert_eq!(found(&measured), Some(128 * K));
    }

    #[test]
    fn the_fixed_threshold_gives_way_only_to_what_is_plain() {
        assert_eq!(found(&[(128, 95, 100), (256, 95, 100)]), Some(256 * K));
        assert_eq!(found(&[(128, 90, 100), (256, 95, 100)]), Some(128 * K));
        assert_eq!(found(&[(128, 105, 100), (256, 105, 100)]), Some(256 * K));
        assert_eq!(found(&[(256, 112, 100), (512, 90, 100)]), Some(512 * K));
    }

    #[test]
    fn too_few_samples_decide_nothing() {
        assert_eq!((found(&[]), found(&[(64, 1, 2), (128, 1, 2)])), (None, None));
        let mut once = samples(&[(64, 1, 2), (256, 1, 2), (512, 1, 2)]);
        once.iter_mut().skip(1).for_each(|sample| sample.times = 1);
        assert_eq!(find(&once), None);
        assert_eq!(found(&[(0, 0, 0), (1 << 20, 0, u64::MAX)]), Some(DIRECT_FROM), "no overflow");
    }
}
