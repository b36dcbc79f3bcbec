//! A flush that takes longer: the calls that make a file durable, each with a wait behind it.
//!
//! The program's own `fdatasync`, `fsync` and `msync` take the place of libc's for everything that is
//! linked into it. They wait as `LatencyDevice` does: a sleep, and a spin for the last 50 us.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static EXTRA_NS: AtomicU64 = AtomicU64::new(0);
const SPIN: Duration = Duration::from_micros(50);

/// How much longer each takes from now on.
pub fn set(extra: Duration) {
    EXTRA_NS.store(extra.as_nanos() as u64, Ordering::Relaxed);
}

/// Waits for so long.
pub fn wait() {
    let extra = Duration::from_nanos(EXTRA_NS.load(Ordering::Relaxed));
    let until = Instant::now() + extra;
    if extra > SPIN {
        std::thread::sleep(extra - SPIN);
    }
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

#[no_mangle]
extern "C" fn fdatasync(fd: libc::c_int) -> libc::c_int {
    // SAFETY: the call takes a number.
    let answer = unsafe { libc::syscall(libc::SYS_fdatasync, fd) };
    wait();
    answer as libc::c_int
}

#[no_mangle]
extern "C" fn fsync(fd: libc::c_int) -> libc::c_int {
    // SAFETY: the call takes a number.
    let answer = unsafe { libc::syscall(libc::SYS_fsync, fd) };
    wait();
    answer as libc::c_int
}

#[no_mangle]
extern "C" fn msync(at: *mut libc::c_void, bytes: usize, flags: libc::c_int) -> libc::c_int {
    // SAFETY: the kernel checks the range; nothing is written to it.
    let answer = unsafe { libc::syscall(libc::SYS_msync, at, bytes, flags) };
    wait();
    answer as libc::c_int
}
