//! The data plane of an unmodified program: grants and the net service's stub.
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
pub mod flush;
pub mod net;
pub mod offload;
pub mod owner;
pub mod process;
pub mod program_rings;
pub mod report;
pub mod splice;
pub mod table;
pub mod thread;
pub mod uring;
pub mod waiting;

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use heliostat_abi::code::Native;
use heliostat_base::sys::Errno;

/// Number of the reason why everything of this program is native; 0 while that is not so.
static WHOLE: AtomicU8 = AtomicU8::new(Native::None as u8);

/// False when everything is native, and counted.
pub fn is_enabled() -> bool {
    WHOLE.load(Relaxed) == Native::None as u8
}

/// Why everything of this program is native; `Native::None` while that is not so.
pub fn native_as_a_whole() -> Native {
    Native::from_number(WHOLE.load(Relaxed)).unwrap_or(Native::None)
}

/// Connections to come are native, for good; the first reason stays.
pub fn stay_native(reason: Native) {
    let (none, reason) = (Native::None as u8, reason as u8);
    if WHOLE.compare_exchange(none, reason, Relaxed, Relaxed).is_ok() {
        report::tell_whole(native_as_a_whole());
    }
}

/// Answer of an emulated call; `None` asks for the kernel's own.
pub type Answer = Option<Result<usize, Errno>>;

/// An answer that is an error number.
pub const fn fail(errno: i32) -> Answer {
    Some(Err(Errno(errno)))
}
