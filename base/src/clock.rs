//! Time: the monotonic clock, and the cycle counter calibrated against it.

use std::sync::OnceLock;

/// Nanoseconds of CLOCK_MONOTONIC.
///
/// This one call goes through libc, because libc's version reads the vDSO page without entering
/// the kernel (27 ns); it is not among the calls that the POSIX stub replaces.
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds since the machine came up, sleep included (CLOCK_BOOTTIME).
pub fn boot_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable; CLOCK_BOOTTIME exists since Linux 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The processor's cycle counter. Not ordered with the instructions around it.
#[inline(always)]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has rdtsc, and Linux leaves it enabled for user space.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// One moment by both clocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moment {
    ns: u64,
    cycles: u64,
}

impl Moment {
    /// This one.
    pub fn now() -> Moment {
        Moment { ns: monotonic_ns(), cycles: cycles() }
    }
}

/// How fast the cycle counter runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CycleRate {
    cycles_per_us: f64,
}

/// How long the one calibration takes; the error is then below 1 in 10^4.
const CALIBRATION_NS: u64 = 2_000_000;

impl CycleRate {
    /// The rate of this machine, measured once per process (2 ms on the first call).
    pub fn of_machine() -> CycleRate {
        static RATE: OnceLock<CycleRate> = OnceLock::new();
        *RATE.get_or_init(CycleRate::measure)
    }

    fn measure() -> CycleRate {
        let (start_ns, start) = (monotonic_ns(), cycles());
        let mut now_ns = start_ns;
        while now_ns - start_ns < CALIBRATION_NS {
            std::hint::spin_loop();
            now_ns = monotonic_ns();
        }
        let passed = cycles().wrapping_sub(start);
        CycleRate { cycles_per_us: passed as f64 * 1e3 / (now_ns - start_ns) as f64 }
    }

    /// The rate by what has passed since an earlier moment, which should lie milliseconds back: without
    /// waiting for anything. That of the machine at 1 GHz where nothing has passed.
    pub fn since(earlier: Moment) -> CycleRate {
        let now = Moment::now();
        let (ns, passed) = (now.ns - earlier.ns, now.cycles.wrapping_sub(earlier.cycles));
        match ns {
            0 => CycleRate { cycles_per_us: 1e3 },
            ns => CycleRate { cycles_per_us: passed as f64 * 1e3 / ns as f64 },
        }
    }

    /// Converts a difference of [`cycles`] to nanoseconds.
    pub fn to_ns(self, cycles: u64) -> f64 {
        cycles as f64 * 1e3 / self.cycles_per_us
    }

    /// Converts nanoseconds to a difference of [`cycles`].
    pub fn from_ns(self, ns: u64) -> u64 {
        (ns as f64 * self.cycles_per_us / 1e3) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first);
    }

    #[test]
    fn a_rate_by_what_has_passed_is_the_machines() {
        let began = Moment::now();
        let measured = CycleRate::measure();
        let found = CycleRate::since(began);
        let ratio = found.cycles_per_us / measured.cycles_per_us;
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn cycles_convert_there_and_back() {
        let rate = CycleRate::of_machine();
        let back = rate.to_ns(rate.from_ns(1_000_000));
        assert!((back - 1e6).abs() < 10.0, "{back}");
    }
}
