//! Undecided connections that wait for their next use: looked at again when another one is accepted.
//!
//! A client that lost its core inside connect(2) makes its offer when it runs again. Who opens many
//! connections before it speaks on any leaves such an offer unclaimed, and after a while takes
//! it back for the slot. An accept that follows claims it before that.
//!
//! An entry names a descriptor that another thread may close: closing takes it out first, under the lock
//! that a look holds, so that no look meets another file of that number.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};

use heliostat_abi::code::Native;
use heliostat_base::lock::Lock;

use super::{decide_under_locks, doubt_control_plane};
use crate::net::socket::{self, Stage};
use crate::table::{self, DescriptorKind};

/// So many are kept; the offers of others are found at their next use.
const WAITING_MAX: usize = 64;
/// So many are looked at by one accept: clients that stay in connect(2) cost it little.
const LOOKS: usize = 4;

#[derive(Clone, Copy)]
struct Entry {
    fd: i32,
    index: u32,
    generation: u32,
}

impl Entry {
    fn is_undecided(&self) -> bool {
        let socket = socket::at(self.index);
        table::kind(self.fd) == DescriptorKind::Socket(self.index)
            && socket.generation() == self.generation
            && socket.stage() == Stage::Undecided
    }
}

struct Waiting {
    entries: [Entry; WAITING_MAX],
    count: usize,
    /// Where the next look begins.
    next: usize,
}

const NOBODY: Entry = Entry { fd: -1, index: 0, generation: 0 };
static WAITING: Lock<Waiting> =
    Lock::new(Waiting { entries: [NOBODY; WAITING_MAX], count: 0, next: 0 });
/// As `Waiting::count`: mostly 0, and then nobody takes the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Waiting {
    /// Looks at the one whose turn it is; why that went native, if it did.
    fn look_at_next(&mut self) -> Option<Native> {
        let at = self.next.checked_rem(self.count)?;
        let entry = self.entries[at];
        let reason = match entry.is_undecided() {
            true => decide_under_locks(entry.fd, entry.index, None),
            false => None,
        };
        match entry.is_undecided() {
            true => self.next = at + 1,
            false => self.remove(at),
        }
        COUNT.store(self.count, Release);
        reason
    }

    fn remove(&mut self, at: usize) {
        self.count -= 1;
        self.entries[at] = self.entries[self.count];
    }
}

/// Keeps a connection just accepted, of which nobody knows yet what it becomes.
pub fn keep(fd: i32, index: u32) {
    let mut waiting = WAITING.lock();
    let at = waiting.count;
    if at < WAITING_MAX {
        let generation = socket::at(index).generation();
        waiting.entries[at] = Entry { fd, index, generation };
        waiting.count += 1;
        COUNT.store(waiting.count, Release);
    }
}

/// Claims what has been offered meanwhile, of a few.
pub fn look() {
    for _ in 0..LOOKS.min(COUNT.load(Acquire)) {
        // Who closes a descriptor meanwhile waits for one of them at most.
        let Some(mut waiting) = WAITING.try_lock() else { return };
        let reason = waiting.look_at_next();
        drop(waiting);
        if let Some(reason) = reason {
            doubt_control_plane(reason);
        }
    }
}

/// Before the kernel closes `fd`: no look meets it from here on.
pub fn forget(fd: i32) {
    if COUNT.load(Acquire) == 0 {
        return;
    }
    let mut waiting = WAITING.lock();
    let known = waiting.entries[..waiting.count].iter().position(|entry| entry.fd == fd);
    if let Some(at) = known {
        waiting.remove(at);
        COUNT.store(waiting.count, Release);
    }
}

/// In the child of a fork, before which its parent has decided all.
pub fn reset_in_forked_child() {
    WAITING.reset_in_forked_child();
    WAITING.lock().count = 0;
    COUNT.store(0, Release);
}
