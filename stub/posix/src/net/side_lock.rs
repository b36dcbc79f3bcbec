//! The lock between processes that share one end of a stream after fork.
//!
//! Locks lie in memory that only a process and its descendants have, never in a channel: no peer can
//! take one, and a holder that dies frees it (`heliostat_backend_robust`). The memory is made before the first
//! fork that shares a stream, so that all who hold that stream have the same.
//!
//! There is a table for reading and one for writing. A stream's lock is the one that its name comes to;
//! two streams may come to the same, which costs them a wait and nothing else. Nobody waits
//! for ever: locks are taken in one order, and none twice.
//!
//! ```text
//! receiver's lock  ->  lock for reading  ->  sender's lock  ->  lock for writing
//! (of the process)     (of the family)       (of the process)   (of the family)
//! ```
//! A reader that has made room rings under its sender's lock, which another thread may hold that waits
//! for a lock for writing: with one table that could be the one which this reader holds.

use std::sync::OnceLock;

use heliostat_backend_robust::{forget_thread, HeldLock, Locks};

use super::channel::Side;
use super::socket::{Socket, Stream};
use crate::thread;

/// Locks of one table, a cache line each: that two of a hundred streams meet is seldom.
const LOCKS: usize = 4096;

/// What is done under the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// The incoming lane is read.
    Reading = 0,
    /// The outgoing lane is written.
    Writing,
}

static TABLES: OnceLock<Option<[Locks; 2]>> = OnceLock::new();

fn tables() -> Option<&'static [Locks; 2]> {
    let make = || Some([Locks::new(LOCKS).ok()?, Locks::new(LOCKS).ok()?]);
    TABLES.get_or_init(make).as_ref()
}

/// Before a fork that shares streams: false when there is no memory for locks.
pub fn prepare() -> bool {
    tables().is_some()
}

/// Released when dropped; empty when no other process shares the end.
pub struct SideGuard(#[expect(dead_code, reason = "held for its drop")] Option<HeldLock<'static>>);

/// Takes the lock of this process's end where it is needed; `None` when there can be none.
#[inline]
pub fn enter(socket: &Socket, stream: &Stream, half: Half) -> Option<SideGuard> {
    if !socket.is_shared() {
        return Some(SideGuard(None));
    }
    take(stream, half)
}

#[cold]
fn take(stream: &Stream, half: Half) -> Option<SideGuard> {
    if thread::may_be_child() {
        forget_thread(); // a child of vfork has its parent's memory and another number
    }
    let held = tables()?[half as usize].lock(number(stream))?;
    Some(SideGuard(Some(held)))
}

/// The same in every process that holds this end, and another one for other ends, mostly.
fn number(stream: &Stream) -> usize {
    let (channel, slot, generation) = stream.slot.name();
    let is_server = u64::from(stream.side == Side::Server);
    let stream = u64::from(channel.index) << 32 | u64::from(slot) << 1 | is_server;
    let times = u64::from(channel.generation) << 32 | u64::from(generation);
    // Fibonacci hashing: neighbours come to places that are far from each other.
    let mixed = (stream ^ times.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize % LOCKS
}
