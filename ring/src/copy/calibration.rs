//! Finding the border between the engines on this machine.
//!
//! The measure is not the copy alone but what the ring does with it: copy into memory that the
//! cache does not hold, as a window much larger than the cache is, and read nothing back. Each
//! size is measured several times in turn and the best time counts, because what disturbs a
//! measurement only ever makes it slower. Who starts a service has no time for the whole of it:
//! few sizes and rounds in less memory, part of which a large cache still holds, which speaks for
//! the cache and never against it.

use heliostat_base::clock::{cycles, CycleRate};
use heliostat_base::mapping::{MappingError, SharedMapping};

use super::engine::{CopyEngine, Memcpy, NonTemporal};
use super::set_nontemporal_from;

/// How much is measured.
struct Effort {
    /// Sizes that are tried, in ascending order.
    sizes: &'static [usize],
    /// The memory that the targets rotate through; larger than a core's own caches.
    arena_bytes: usize,
    /// Bytes that one round copies at most, of each size.
    round_bytes: usize,
    rounds: usize,
}

const WHOLE: Effort = Effort {
    sizes: &[1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20],
    arena_bytes: 32 << 20,
    round_bytes: 32 << 20,
    rounds: 5,
};
const QUICK: Effort = Effort {
    sizes: &[64 << 10, 256 << 10, 1 << 20],
    arena_bytes: 8 << 20,
    round_bytes: 2 << 20,
    rounds: 2,
};
/// How much faster the second engine has to be to count as such, as a ratio. Less is noise, from one
/// start to the next; and a transfer is made in parts, between which a server loop serves others, who
/// wait longer for a part that goes around the cache than the whole gains.
const GAIN: f64 = 1.25;

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
///
/// # Errors
/// The kernel has no memory for it; the border stays.
pub fn calibrate() -> Result<Vec<Sample>, MappingError> {
    set_by(&WHOLE)
}

/// The same in some milliseconds, for who is waited for.
///
/// # Errors
/// As [`calibrate`].
pub fn calibrate_quickly() -> Result<Vec<Sample>, MappingError> {
    set_by(&QUICK)
}

/// Measures both engines at every size and sets nothing.
///
/// # Errors
/// As [`calibrate`].
pub fn measure() -> Result<Vec<Sample>, MappingError> {
    WHOLE.measure()
}

fn set_by(effort: &Effort) -> Result<Vec<Sample>, MappingError> {
    let samples = effort.measure()?;
    set_nontemporal_from(border(&samples));
    Ok(samples)
}

/// The smallest size from which the non-temporal engine always gains; never if it does not at last.
fn border(samples: &[Sample]) -> usize {
    let losing = samples.iter().rposition(|s| s.nontemporal_ns * GAIN >= s.memcpy_ns);
    match losing {
        None => samples.first().map_or(usize::MAX, |s| s.bytes),
        Some(last) => samples.get(last + 1).map_or(usize::MAX, |s| s.bytes),
    }
}

impl Effort {
    fn measure(&self) -> Result<Vec<Sample>, MappingError> {
        let (_fd, arena) = SharedMapping::create(c"heliostat-calibration", self.arena_bytes)?;
        let source = vec![0x5au8; *self.sizes.last().unwrap_or(&0)];
        // The first touch of each page is the kernel's time, not the engine's.
        arena.zero(0, self.arena_bytes).expect("the arena is writable and that long");
        let rate = CycleRate::of_machine();
        let samples = self.sizes.iter().map(|&bytes| Sample {
            bytes,
            memcpy_ns: rate.to_ns(self.best(&Memcpy, &arena, &source[..bytes])),
            nontemporal_ns: rate.to_ns(self.best(&NonTemporal, &arena, &source[..bytes])),
        });
        Ok(samples.collect())
    }

    /// Best number of cycles for one copy, over targets that were not touched lately.
    fn best(&self, engine: &dyn CopyEngine, arena: &SharedMapping, source: &[u8]) -> u64 {
        let targets = (self.round_bytes / source.len()).clamp(1, 64);
        let stride = self.arena_bytes / targets;
        let mut least = u64::MAX;
        for _ in 0..self.rounds {
            let start = cycles();
            for target in 0..targets {
                let into = arena.as_ptr().wrapping_add(target * stride);
                // SAFETY: stride >= len, since a round's bytes are no more than the arena's, so
                // target * stride + len <= the arena's bytes, which are nobody else's.
                unsafe { engine.copy(into, source.as_ptr(), source.len()) };
            }
            least = least.min(cycles().wrapping_sub(start) / targets as u64);
        }
        least
    }
}

const _: () = assert!(WHOLE.round_bytes <= WHOLE.arena_bytes);
const _: () = assert!(QUICK.round_bytes <= QUICK.arena_bytes);

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

    #[test]
    fn a_gain_within_the_noise_is_none() {
        assert_eq!(border(&samples(&[0.9, 0.85, 0.85])), usize::MAX);
        assert_eq!(border(&samples(&[0.9, 0.85, 0.7])), 4000);
    }

    #[test]
    fn a_quick_calibration_tries_each_of_its_sizes() {
        let samples = QUICK.measure().unwrap();
        let sizes: Vec<_> = samples.iter().map(|sample| sample.bytes).collect();
        assert_eq!(sizes, QUICK.sizes);
        assert!(samples.iter().all(|it| it.memcpy_ns > 0.0 && it.nontemporal_ns > 0.0));
    }
}
