//! The bare cache line between two cores: what the hardware charges for one round trip.
//!
//! Virtual machines move between hosts' core pairs, so this figure changes between runs and even
//! within one; it is taken before and after every comparison and printed beside it.

use std::sync::atomic::{AtomicU64, Ordering};

use heliostat_base::affinity::pin;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::spin;

#[repr(align(128))]
struct Line(AtomicU64);

/// Nanoseconds of one round trip of one line between two cores, median of short rounds.
pub fn line_ns(cores: (usize, usize)) -> f64 {
    let rounds: Vec<f64> = (0..5).map(|_| bounce(cores, 20_000, false)).collect();
    crate::report::median(&rounds)
}

/// The same on one core, where both sides give up the core after every look.
pub fn yield_ns(core: usize) -> f64 {
    bounce((core, core), 5_000, true)
}

fn bounce(cores: (usize, usize), turns: u64, yielding: bool) -> f64 {
    let line = Line(AtomicU64::new(0));
    let await_value = |value: u64| {
        while line.0.load(Ordering::Acquire) != value {
            if yielding {
                spin::yield_now();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pin(cores.1);
            for turn in 0..turns {
                await_value(2 * turn + 1);
                line.0.store(2 * turn + 2, Ordering::Release);
            }
        });
        let _ = pin(cores.0);
        let mut start = monotonic_ns();
        for turn in 0..turns {
            if turn == turns / 10 {
                start = monotonic_ns();
            }
            line.0.store(2 * turn + 1, Ordering::Release);
            await_value(2 * turn + 2);
        }
        (monotonic_ns() - start) as f64 / (turns - turns / 10) as f64
    })
}
