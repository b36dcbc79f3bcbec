//! Finding the border between the engines on this machine.
//!
//! The measure is not the copy alone but what the ring does with it: copy into memory that the
//! cache does not hold, as a window much larger than the cache is, and read nothing back. Each
//! size is measured several times in turn and the best time counts, because what disturbs a
//! measurement only ever makes it slower.

use heliostat_base::clock::{cycles, CycleRate};
use heliostat_base::mapping::SharedMapping;

use super::engine::{CopyEngine, Memcpy, NonTemporal};
use super::set_nontemporal_from;
use crate::error::RingError;

/// Sizes that are tried, in ascending order.
pub const SIZES: [usize; 8] =
    [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20];

/// The memory that the targets rotate through; larger than a core's own caches.
const ARENA_BYTES: usize = 32 << 20;
const ROUNDS: usize = 5;

/// Time of one copy of `bytes`, by both engines.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Bytes copied.
    pub bytes: usize,
    /// Nanoseconds through the cache.
    pub memcpy_ns: f64,
    /// Nanoseconds around it.
    pub nontemporal_ns: f64,
}

/// Measures, sets the border, and says what was measured (about 100 ms).
pub fn calibrate() -> Result<Vec<Sample>, RingError> {
    let samples = measure()?;
    set_nontemporal_from(border(&samples));
    Ok(samples)
}

/// Measures both engines at every size and sets nothing.
pub fn measure() -> Result<Vec<Sample>, RingError> {
    let (_fd, arena) = SharedMapping::create(c"heliostat-calibration", ARENA_BYTES)?;
    let source = vec![0x5au8; *SIZES.last().unwrap_or(&0)];
    // The first touch of each page is the kernel's time, not the engine's.
    arena.zero(0, ARENA_BYTES).expect("the arena is writable and that long");
    let rate = CycleRate::of_machine();
    Ok(SIZES
        .iter()
        .map(|&bytes| Sample {
            bytes,
            memcpy_ns: rate.to_ns(best(&Memcpy, &arena, &source[..bytes])),
            nontemporal_ns: rate.to_ns(best(&NonTemporal, &arena, &source[..bytes])),
        })
        .collect())
}

/// The smallest size from which the non-temporal engine is never slower; never if it loses last.
fn border(samples: &[Sample]) -> usize {
    let losing = samples.iter().rposition(|s| s.nontemporal_ns >= s.memcpy_ns);
    match losing {
        None => samples.first().map_or(usize::MAX, |s| s.bytes),
        Some(last) => samples.get(last + 1).map_or(usize::MAX, |s| s.bytes),
    }
}

/// Best number of cycles for one copy, over targets that were not touched lately.
fn best(engine: &dyn CopyEngine, arena: &SharedMapping, source: &[u8]) -> u64 {
    let targets = (ARENA_BYTES / source.len()).min(64);
    let stride = ARENA_BYTES / targets;
    let mut least = u64::MAX;
    for _ in 0..ROUNDS {
        let start = cycles();
        for target in 0..targets {
            let into = arena.as_ptr().wrapping_add(target * stride);
            // SAFETY: target * stride + len <= ARENA_BYTES, and the arena is nobody else's.
            unsafe { engine.copy(into, source.as_ptr(), source.len()) };
        }
        least = least.min(cycles().wrapping_sub(start) / targets as u64);
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(ratios: &[f64]) -> Vec<Sample> {
        let sizes = [1000, 2000, 4000];
        let pairs = sizes.iter().zip(ratios);
        pairs.map(|(&bytes, r)| Sample { bytes, memcpy_ns: 1.0, nontemporal_ns: *r }).collect()
    }

    #[test]
    fn the_border_is_the_size_from_which_the_second_engine_always_wins() {
        assert_eq!(border(&samples(&[2.0, 1.5, 0.5])), 4000);
        assert_eq!(border(&samples(&[0.5, 1.5, 0.5])), 4000);
        assert_eq!(border(&samples(&[0.5, 0.5, 0.5])), 1000);
        assert_eq!(border(&samples(&[0.5, 0.5, 1.0])), usize::MAX);
        assert_eq!(border(&[]), usize::MAX);
    }
}
