//! Output commit, as calls of the program come to it: what a wait does while something is not flushed, and
//! what a call does that must not let anything out before.
//!
//! Holding back and publishing are `unflushed`'s; here is when, and that a peer which asked for the
//! kernel's path while it was published to is followed.

use heliostat_abi::code::Native;
use heliostat_base::clock;
use heliostat_base::sys::Errno;

use super::{demote, unflushed};
use crate::flush;
use crate::thread::Critical;

/// Takes note of flushes that have ended, and publishes what is due.
pub fn progress() {
    unflushed::progress();
    while follow() {
        unflushed::progress();
    }
}

/// Leaves with those peers that have asked for it; false when there were none.
fn follow() -> bool {
    let asked = unflushed::take_asked();
    for (fd, index) in asked.into_iter().flatten() {
        demote::leave(fd, index, Native::PeerAsked); // D3
    }
    asked[0].is_some()
}

/// Waits until nothing is left to flush or to let out.
#[cold]
pub fn settle() {
    while flush::is_busy() {
        unflushed::settle();
        progress();
    }
}

/// Before the kernel sends what was let by because a direct connection would have held it back: the
/// connection has left since, or has half left, and its reader has not followed yet. `Some` is the
/// answer, where a flush has failed that the program does not know of.
#[cold]
pub fn before_kernel_sends() -> Option<Errno> {
    settle();
    flush::is_untold().then_some(Errno(libc::EIO))
}

/// A call that finds nothing and does not wait: publishes what is due, and has the next flush begun.
#[cold]
pub fn look_in() {
    flush::note_wait();
    progress();
    start();
}

/// What a wait does first: publishes what is due while flushes end, until `look` finds something for the
/// program to do, or `ends`, or all is flushed. True when `look` found something. `sleep` sleeps
/// for the given descriptors (-1 is none) and for what `look` looks at.
#[cold]
pub fn outlast(
    ends: Option<u64>,
    mut look: impl FnMut() -> bool,
    mut sleep: impl FnMut([i32; 2]),
) -> bool {
    flush::note_wait();
    loop {
        progress();
        if !flush::is_busy() {
            return false;
        }
        if look() {
            start();
            return true;
        }
        if ends.is_some_and(|ends| clock::monotonic_ns() >= ends) {
            start();
            return false;
        }
        if !flush::is_flying() {
            let _critical = Critical::enter();
            flush::flush_here();
        } else {
            match flush::ring_fds() {
                [-1, -1] => flush::wait(),
                rings => sleep(rings),
            }
        }
    }
}

fn start() {
    let _critical = Critical::enter();
    flush::start();
}
