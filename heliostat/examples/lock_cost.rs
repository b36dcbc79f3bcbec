//! What an uncontended acquisition and its release cost, and how soon the next holder goes on.
//!
//! Prints microseconds; a control plane has to run (`heliostat start`), at HELIOSTAT_SOCKET or the
//! user's own place. With the number of another node of its cluster, also the cost of locks there:
//!
//!     cargo run --release -p heliostat --example lock_cost -- 2

use std::time::{Duration, Instant};

use heliostat::control;
use heliostat::lock::{LockError, Locks};

const ROUNDS: usize = 20_000;
const HAND_OVERS: usize = 2_000;

fn main() -> Result<(), LockError> {
    control::configure_as_usual("lock-cost");
    let locks = Locks::open()?;
    measure(&locks)?;
    let node = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let Some(node) = node else { return Ok(()) };
    println!("on node {node}:");
    measure(&locks.on(node))
}

fn measure(locks: &Locks) -> Result<(), LockError> {
    let lock = locks.lock("example/cost")?;
    let pairs = timed(ROUNDS, || lock.acquire()?.release())?;
    let tries = timed(ROUNDS, || lock.try_acquire().map(drop))?;
    println!("acquire and release: {:.2} us median, {:.2} us p99", pairs.0, pairs.1);
    println!("try_acquire and drop: {:.2} us median, {:.2} us p99", tries.0, tries.1);
    hand_over(locks)
}

/// Two threads that hand a lock to and fro: each release lets the other, which sleeps, go on.
fn hand_over(locks: &Locks) -> Result<(), LockError> {
    let (one, other) = (locks.lock("example/turn")?, locks.lock("example/turn")?);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let turn = |lock: heliostat::lock::Lock| {
            for _ in 0..HAND_OVERS {
                if let Ok(held) = lock.acquire() {
                    let _ = held.release();
                }
            }
        };
        scope.spawn(move || turn(one));
        scope.spawn(move || turn(other));
    });
    let each = micros(begin.elapsed()) / (2 * HAND_OVERS) as f64;
    println!("two threads in turn: {each:.2} us an acquisition and release");
    Ok(())
}

/// Median and 99th percentile of a call, in microseconds.
fn timed(
    rounds: usize,
    mut call: impl FnMut() -> Result<(), LockError>,
) -> Result<(f64, f64), LockError> {
    let mut all = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begin = Instant::now();
        call()?;
        all.push(begin.elapsed());
    }
    all.sort_unstable();
    Ok((micros(all[rounds / 2]), micros(all[rounds * 99 / 100])))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
