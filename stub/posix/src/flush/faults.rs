//! For tests: a device that is slow, or fails. Built in only with the feature `flush-faults`.

use std::sync::OnceLock;

use heliostat_base::clock;
use heliostat_base::spin::{sleep_ns, yield_now};
use heliostat_base::sync::AtomicU64;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sys::Errno;

/// What is left of a wait when the thread begins to look at the clock.
const SPIN_NS: u64 = 50_000;
/// Nobody sleeps longer at once.
const SLEEP_NS: u64 = 500_000;

static ANSWERED: AtomicU64 = AtomicU64::new(0);
/// When the log's write that is under way ends, and the one behind it.
static CURRENT: AtomicU64 = AtomicU64::new(0);
static NEXT: AtomicU64 = AtomicU64::new(0);

fn number(name: &str) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn delay_ns() -> u64 {
    static DELAY: OnceLock<u64> = OnceLock::new();
    *DELAY.get_or_init(|| {
        let (ms, us) = ("HELIOSTAT_TEST_FLUSH_DELAY_MS", "HELIOSTAT_TEST_FLUSH_DELAY_US");
        number(ms) * 1_000_000 + number(us) * 1000
    })
}

/// When a flush that begins now has ended at the earliest.
pub fn ends_at() -> u64 {
    clock::monotonic_ns() + delay_ns()
}

/// The same of a write of the log. One is under way at a time, and those that are asked for meanwhile share the
/// next one.
pub fn log_ends_at() -> u64 {
    let (now, current, next) = (clock::monotonic_ns(), CURRENT.load(Relaxed), NEXT.load(Relaxed));
    // The caller has the lock of all flushes.
    let (current, next) = match now {
        _ if now < current => (current, current + delay_ns()),
        _ if now < next => (next, next + delay_ns()),
        _ => (now + delay_ns(), now + delay_ns()),
    };
    CURRENT.store(current, Relaxed);
    NEXT.store(next, Relaxed);
    next
}

/// The delay of a flush that a thread makes itself.
pub fn sleep() {
    let ends = ends_at();
    loop {
        match sleep_limit_ns(ends) {
            _ if clock::monotonic_ns() >= ends => return,
            0 => yield_now(),
            ns => sleep_ns(ns),
        }
    }
}

/// How long one may sleep who waits for this end: a sleep ends late, so the last of a wait is none. Then it
/// ends as exactly as what `bench/programs/slowflush.c` makes of a program without a stub.
pub fn sleep_limit_ns(ends_at: u64) -> u64 {
    ends_at.saturating_sub(clock::monotonic_ns()).saturating_sub(SPIN_NS).min(SLEEP_NS)
}

/// The answer of the device: EIO for the flush of this number, counted from 1.
pub fn answer() -> Result<(), Errno> {
    static FAILS: OnceLock<u64> = OnceLock::new();
    let fails = *FAILS.get_or_init(|| number("HELIOSTAT_TEST_FLUSH_FAILS"));
    match ANSWERED.fetch_add(1, Relaxed) + 1 == fails {
        true => Err(Errno(libc::EIO)),
        false => Ok(()),
    }
}
