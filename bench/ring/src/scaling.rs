//! Many threads, each putting and taking 64 B in turn (Solros figure 8), and one stream (figure 9).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use heliostat_base::affinity::pin;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::spin::yield_now;
use heliostat_ring::doorbell::Patience;
use heliostat_ring::probe::Immortal;
use heliostat_ring::{Refresh, RingError, RingMemory};

use crate::locks::{Lock, TwoLockQueue};

/// How long one repetition of the scaling test runs.
const RUN: Duration = Duration::from_millis(150);

/// Pairs per second of our ring with `threads` threads.
pub fn ours_pairs(threads: usize, cores: &[usize]) -> Result<f64, RingError> {
    let (_fd, memory) = RingMemory::create(c"bench-scaling", 64 << 10)?;
    let (producer, consumer) = (memory.producer()?, memory.consumer()?);
    Ok(pairs_per_second(threads, cores, |bytes| {
        while producer.push(bytes).is_err() {
            yield_now();
        }
        while consumer.pop(bytes).is_err() {
            yield_now();
        }
    }))
}

/// Pairs per second of the two-lock queue.
pub fn two_lock_pairs<L: Lock>(threads: usize, cores: &[usize]) -> f64 {
    let queue = TwoLockQueue::<L>::new(512);
    pairs_per_second(threads, cores, |bytes| {
        while !queue.put(bytes) {
            yield_now();
        }
        while !queue.take(bytes) {
            yield_now();
        }
    })
}

fn pairs_per_second(threads: usize, cores: &[usize], pair: impl Fn(&mut [u8; 64]) + Sync) -> f64 {
    let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = monotonic_ns();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, total, pair) = (&stop, &total, &pair);
            scope.spawn(move || {
                let _ = pin(cores[thread % cores.len()]);
                let (mut bytes, mut done) = ([thread as u8; 64], 0);
                while !stop.load(Ordering::Relaxed) {
                    pair(&mut bytes);
                    done += 1;
                }
                total.fetch_add(done, Ordering::Relaxed);
            });
        }
        std::thread::sleep(RUN);
        stop.store(true, Ordering::Relaxed);
    });
    total.into_inner() as f64 * 1e9 / (monotonic_ns() - start) as f64
}

/// Million elements of 64 B per second from one core to another.
pub fn stream_rate(cores: (usize, usize), refresh: Refresh) -> Result<f64, RingError> {
    const ELEMENTS: u64 = 1_000_000;
    let (_fd, memory) = RingMemory::create(c"bench-stream", 64 << 10)?;
    let (mut producer, mut consumer) =
        (memory.spsc_producer(refresh)?, memory.spsc_consumer(refresh)?);
    let start = monotonic_ns();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = pin(cores.1);
            let mut bytes = [0; 64];
            for _ in 0..ELEMENTS {
                while consumer.pop(&mut bytes).is_err() {
                    let _ = consumer.wait(&Patience::ENDLESS, &Immortal);
                }
            }
        });
        let _ = pin(cores.0);
        for _ in 0..ELEMENTS {
            while producer.push(&[1; 64]).is_err() {
                let _ = producer.wait_space(64, &Patience::ENDLESS, &Immortal);
            }
        }
    });
    Ok(ELEMENTS as f64 * 1e3 / (monotonic_ns() - start) as f64)
}
