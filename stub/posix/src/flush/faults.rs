//! For tests: a device that is slow, or fails. Built in only with the feature `flush-faults`.

use std::sync::OnceLock;

use heliostat_base::clock;
use heliostat_base::spin::sleep_ns;
use heliostat_base::sync::AtomicU64;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sys::Errno;

static ANSWERED: AtomicU64 = AtomicU64::new(0);

fn number(name: &str) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn delay_ns() -> u64 {
    static DELAY: OnceLock<u64> = OnceLock::new();
    *DELAY.get_or_init(|| number("HELIOSTAT_TEST_FLUSH_DELAY_MS") * 1_000_000)
}

/// When a flush that begins now has ended at the earliest.
pub fn ends_at() -> u64 {
    clock::monotonic_ns() + delay_ns()
}

/// The delay of a flush that a thread makes itself.
pub fn sleep() {
    let ends = clock::monotonic_ns() + delay_ns();
    while clock::monotonic_ns() < ends {
        sleep_ns(ends - clock::monotonic_ns().min(ends));
    }
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
