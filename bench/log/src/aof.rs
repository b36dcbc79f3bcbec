//! Redis over plain Linux with our log: `LD_PRELOAD` of this makes its append-only file an append to a log.
//!
//! What Redis writes to a file of the name `*.incr.aof` is kept until it calls fdatasync, which appends it to a
//! log in the folder that HELIOSTAT_BENCH_LOG names, and waits until it is durable. For measurements: nothing
//! reads the log again. HELIOSTAT_SLOW_FLUSH_US simulates a slower flush, as in `bench/programs/slowflush.c`.

mod log;
mod way;

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use log::Ours;
use way::{Failure, Way};

/// The file that is open now; -1 for none.
static FILE: AtomicI32 = AtomicI32::new(-1);
static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static LOG: OnceLock<Ours> = OnceLock::new();

fn make() -> Result<Ours, Failure> {
    let folder = std::env::var("HELIOSTAT_BENCH_LOG")?;
    let extra = std::env::var("HELIOSTAT_SLOW_FLUSH_US").map_or(Ok(0), |text| text.parse())?;
    Ours::new(Path::new(&folder), Duration::from_micros(extra))
}

/// Ends the program: what it measures would not be what it says.
fn give_up(failure: &Failure) -> ! {
    eprintln!("the log of HELIOSTAT_BENCH_LOG failed: {failure}");
    std::process::abort()
}

/// open(2), as programs with large files call it.
///
/// # Safety
/// The kernel checks the path; it ends with a zero if the call has not failed.
#[no_mangle]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the kernel checks what it is given.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) } as c_int;
    // SAFETY: what the kernel has opened is a path.
    if fd >= 0 && unsafe { CStr::from_ptr(path) }.to_bytes().ends_with(b".incr.aof") {
        if LOG.get().is_none() {
            let made = make().unwrap_or_else(|failure| give_up(&failure));
            let _ = LOG.set(made);
        }
        FILE.store(fd, Ordering::Relaxed);
    }
    fd
}

/// write(2).
///
/// # Safety
/// `from` has so many bytes, as for the kernel's.
#[no_mangle]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, bytes: usize) -> isize {
    if fd < 0 || fd != FILE.load(Ordering::Relaxed) {
        // SAFETY: the kernel checks what it is given.
        return unsafe { libc::syscall(libc::SYS_write, fd, from, bytes) } as isize;
    }
    // SAFETY: the caller says so.
    let payload = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
    WRITTEN.lock().expect("nobody panics with it").extend_from_slice(payload);
    bytes as isize
}

/// fdatasync(2).
#[no_mangle]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    let log = LOG.get().filter(|_| fd >= 0 && fd == FILE.load(Ordering::Relaxed));
    let Some(log) = log else {
        // SAFETY: the call takes a number.
        return unsafe { libc::syscall(libc::SYS_fdatasync, fd) } as c_int;
    };
    let mut written = WRITTEN.lock().expect("nobody panics with it");
    if let Err(failure) = log.append(&written) {
        give_up(&failure);
    }
    written.clear();
    0
}
