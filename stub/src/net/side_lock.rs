//! The lock between processes that share one end of a stream after fork.
//!
//! It lies in memory the peer can write, so it is never waited for without a limit: a holder that
//! is gone is robbed, and a word that makes no sense for too long ends the connection, not us.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use heliostat_base::{call, clock, spin};

use super::socket::Socket;
use crate::thread;

/// After this long the holder is asked for.
const SUSPECT_NS: u64 = 5_000_000;
/// After this long the connection is given up.
const LIMIT_NS: u64 = 1_000_000_000;

/// Released when dropped; empty when no other process shares the end.
pub struct SideGuard<'a>(Option<&'a AtomicU32>);

impl Drop for SideGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(word) = self.0 {
            word.store(0, Release);
        }
    }
}

/// Takes the lock where it is needed; `None` when the word stays taken beyond the limit.
#[inline]
pub fn enter<'a>(socket: &Socket, word: &'a AtomicU32) -> Option<SideGuard<'a>> {
    if !socket.shared.load(Relaxed) {
        return Some(SideGuard(None));
    }
    take(word)
}

#[cold]
fn take(word: &AtomicU32) -> Option<SideGuard<'_>> {
    let own = thread::tid() as u32;
    let began = clock::monotonic_ns();
    let mut spin = spin::Spin::new();
    loop {
        let holder = word.load(Relaxed);
        let waited = clock::monotonic_ns() - began;
        let is_free = holder == 0
            || holder == own
            || (waited > SUSPECT_NS && !call::thread_exists(holder as i32));
        if is_free && word.compare_exchange(holder, own, Acquire, Relaxed).is_ok() {
            return Some(SideGuard(Some(word)));
        }
        if waited > LIMIT_NS {
            return None;
        }
        spin.turn();
    }
}
