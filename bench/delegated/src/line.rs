//! What the hardware charges: a cache line there and back, and a copy of 4 KiB.

use std::sync::atomic::{Ordering::Acquire, Ordering::Release};
use std::sync::Arc;
use std::time::Instant;

use heliostat_base::affinity::pin;
use heliostat_base::mapping::SharedMapping;
use heliostat_bench_report::median;

use crate::Outcome;

/// Short, so that most rounds pass without a switch to another program.
const TRIPS: u64 = 200;
const ROUNDS: usize = 2001;
const COPIES: u32 = 200;
/// Where the line lies: as the first element of a ring does.
const LINE_AT: usize = 4096;
const LINE_BYTES: usize = 2 * 4096;

/// Medians of both, in nanoseconds. The line lies in memory of the kind that rings lie in: which
/// page it is decides how far its owner in the processor is from either core.
pub fn measure(one: usize, other: usize) -> Outcome {
    let line = Arc::new(SharedMapping::create(c"line", LINE_BYTES)?.1);
    let theirs = line.clone();
    let last = 2 * TRIPS * ROUNDS as u64;
    let echo = std::thread::spawn(move || {
        let pinned = pin(other);
        for trip in (1..last).step_by(2) {
            // No pause: it would add half its length to each way, and the reference is the hardware.
            while theirs.atomic_u64(LINE_AT).load(Acquire) != trip {}
            theirs.atomic_u64(LINE_AT).store(trip + 1, Release);
        }
        pinned
    });
    pin(one).map_err(|errno| errno.to_string())?;
    let mut rounds = Vec::new();
    for round in 0..ROUNDS as u64 {
        let began = Instant::now();
        for trip in round * TRIPS..(round + 1) * TRIPS {
            line.atomic_u64(LINE_AT).store(2 * trip + 1, Release);
            while line.atomic_u64(LINE_AT).load(Acquire) != 2 * trip + 2 {}
        }
        rounds.push(began.elapsed().as_nanos() as f64 / TRIPS as f64);
    }
    echo.join().map_err(|_| "the other thread failed")?.map_err(|errno| errno.to_string())?;
    Ok(format!("{{\"line_ns\": {:.1}, \"copy_ns\": {:.1}}}", median(&rounds), copy()?))
}

/// A copy of 4 KiB between two pieces of shared memory that this core has used just before.
fn copy() -> Result<f64, Box<dyn std::error::Error>> {
    let (_fd, memory) = SharedMapping::create(c"copy", 8192)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..COPIES {
            memory.copy_within(0, 4096, 4096)?;
        }
        rounds.push(began.elapsed().as_nanos() as f64 / f64::from(COPIES));
    }
    Ok(median(&rounds))
}
