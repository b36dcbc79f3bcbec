//! The data plane of an unmodified program: sessions, grants and the net service's stub.
//!
//! Everything here speaks the kernel's language (descriptor numbers, flags, error numbers) and
//! answers `None` where the kernel itself should do the call. `bind/posix` turns registers and
//! pointers into the arguments used here; the rings are `heliostat_ring`'s.
//!
//! Rules by path: *hot* (a transfer on a direct stream, an epoll scan): no system call, no
//! allocation, one lock of its own. *Warm* (sleeping, waking): system calls. *Cold* (opening,
//! closing, leaving the direct path): anything.
#![forbid(unsafe_code)]

pub mod event;
pub mod file;
pub mod net;
pub mod process;
pub mod report;
pub mod session;
pub mod snapshot;
pub mod table;
pub mod thread;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use heliostat_base::sys::Errno;

static ENABLED: AtomicBool = AtomicBool::new(true);

/// False when the user switched direct streams off: everything is native, and counted.
pub fn is_enabled() -> bool {
    ENABLED.load(Relaxed)
}

/// Switches direct streams on or off for connections to come.
pub fn enable(on: bool) {
    ENABLED.store(on, Relaxed);
}

/// Answer of an emulated call; `None` asks for the kernel's own.
pub type Answer = Option<Result<usize, Errno>>;

/// An answer that is an error number.
pub const fn fail(errno: i32) -> Answer {
    Some(Err(Errno(errno)))
}
