//! Reading files without the kernel: mapped under a lease, copied, and checked afterwards.
//!
//! The control plane holds a lease on the file (fcntl(2), F_SETLEASE) on which the kernel lets
//! nobody write or truncate before the lease is given back; before it gives one back it changes a
//! word of the node page. So a read is: copy from the mapping, look at the word; if it has
//! changed, what was copied is thrown away and the kernel does the call.
//!
//! ```text
//! open        one word: a candidate        word
//! N-th read   lease, mapping               lease
//! pread       copy, look                   read
//! read        the same, and the offset     read, position
//! close       the lease is given back      life
//! fork, exec, sendfile ...                 settle
//! ```
//! *Hot* is a read of a mapped file: loads, one copy, loads; `read(2)` stores the offset too.

pub mod description;
mod lease;
mod life;
mod position;
mod read;
mod requests;
mod settle;
mod word;

pub use life::{closing, duplicated, give_up, kept_changed, opened, stop};
pub use read::{at, at_many, count_early, missed, next, next_many, seek, Next, Seek};
pub use settle::{
    after_fork, before_exec, before_fork, before_spawn, done, exec_failed, in_forked_child,
    needs_offset, passing, Ticket,
};
pub use word::Word;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Reads by the kernel before a lease is asked for the first time, in eighths. A question with its
/// mapping and the end of both costs as much as some 300 short reads save (`bench` in docs/files.md):
/// who closes right after the question has lost no more than was spent before.
pub const READS_FIRST: u32 = 256 * 8;

static ENABLED: AtomicBool = AtomicBool::new(false);
/// Files mapped now; while zero, fork and exec have nothing to settle.
static MAPPED: AtomicU32 = AtomicU32::new(0);
/// Puts our handler of faults in, once; false when that cannot be done.
static FAULTS: std::sync::OnceLock<fn() -> bool> = std::sync::OnceLock::new();

/// Switches mapped reads on, for files that are opened from now on. `faults` puts the handler of
/// SIGBUS and SIGSEGV in that ends a guarded copy, or says that it cannot.
pub fn enable(faults: fn() -> bool) {
    let _ = FAULTS.set(faults);
    ENABLED.store(true, Relaxed);
}

/// True when files that are opened now may be mapped later.
#[inline(always)]
pub fn is_enabled() -> bool {
    ENABLED.load(Relaxed)
}
