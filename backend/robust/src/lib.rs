//! Locks between a process and those that it forks, which the kernel frees when their holder dies.
//!
//! A thread that holds one, or is about to, stands in its list of robust futexes. The kernel walks
//! that list when the thread ends, however that happens, marks what the thread owned
//! (FUTEX_OWNER_DIED) and wakes one who waits (source: robust-futex-ABI). It compares the word with
//! the number by which the dying thread knew itself: so nobody ever looks a number up that another
//! process wrote, and holders may live in different PID namespaces.
//!
//! A thread has one such list. libc registers it where it has one; an entry of ours lies in front of
//! it for as long as the lock is held, in which no code of libc's or of the program's runs. Where
//! there is none, as in a child that was made without libc, one of this module's own is registered.
//!
//! ```text
//! word   0: free    thread | WAITERS: held    OWNER_DIED | WAITERS: its holder died, whoever comes takes it
//! ```
//!
//! Orders: `R1` what was done under the lock before the word names nobody (release, or the kernel's
//! exchange); who takes it acquires. `R2` who finds the lock taken adds WAITERS before it sleeps, and
//! sleeps only while the word says so; who gives it back exchanges the word, and wakes one if it said
//! so. Whoever takes it after a sleep says WAITERS for the others that may sleep. `R3` the entry is
//! announced before the word is taken or given back, and withdrawn only when it is in the list, or
//! out of it and the wake-up made. `models` shows them under loom, with the kernel's walk in it.

mod list;

use std::time::Duration;

use heliostat_base::mapping::{MappingError, SharedMapping};
use heliostat_base::spin;
use heliostat_base::sync::Ordering::{Acquire, Relaxed, Release};
use heliostat_base::sync::{futex_wait, futex_wake_one, shared_u32, AtomicU32};
use list::{Entry, Listed};

pub use list::forget_thread;

/// A lock has a cache line of its own: word, and place for an entry of the list.
const CELL_BYTES: usize = 64;
/// Turns of waiting before sleeping: a holder copies a few kilobytes at most.
const SPIN_TURNS: u32 = if cfg!(loom) { 1 } else { 64 };
/// One that was woken and then killed has passed its wake-up to nobody: the others look again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const WAITERS: u32 = libc::FUTEX_WAITERS;
const OWNER: u32 = libc::FUTEX_TID_MASK;

/// A fixed number of locks, which this process shares with whom it forks from now on, and with
/// nobody else.
pub struct Locks {
    memory: SharedMapping,
}

/// One of them, held by this thread; freed when dropped. A thread that holds one takes no other,
/// but of another `Locks`, and gives them back in the opposite order.
pub struct HeldLock<'a> {
    word: &'a AtomicU32,
    listed: Listed,
}

impl Locks {
    /// `count` free locks.
    ///
    /// # Errors
    /// The kernel has no memory for them.
    pub fn new(count: usize) -> Result<Self, MappingError> {
        Ok(Self { memory: SharedMapping::for_descendants(count * CELL_BYTES)? })
    }

    /// Takes lock `number`, modulo how many there are, and sleeps while another thread holds it.
    /// `None` where this thread can have no list of robust futexes: then the lock is not taken.
    pub fn lock(&self, number: usize) -> Option<HeldLock<'_>> {
        let word = self.memory.atomic_u32(number * CELL_BYTES % self.memory.len());
        let entry = Entry::behind(word, CELL_BYTES)?;
        let word = shared_u32(word);
        wait_and_take(word, &entry);
        Some(HeldLock { word, listed: entry.enter() })
    }
}

impl Drop for HeldLock<'_> {
    fn drop(&mut self) {
        self.listed.leave();
        give_back(self.word);
        self.listed.withdraw();
    }
}

/// A thread of a word that it takes: its number, and what it tells the kernel of it.
trait Taker {
    /// Number of the thread, for the word.
    fn thread(&self) -> u32;
    /// The word is about to be taken: should this thread die now, the kernel looks.
    fn announce(&self);
    /// Nothing is about to happen any more.
    fn withdraw(&self);
}

fn wait_and_take(word: &AtomicU32, entry: &impl Taker) {
    if !take(word, entry, 0, entry.thread()) {
        take_slowly(word, entry);
    }
}

/// The entry is announced, and out of the list.
fn give_back(word: &AtomicU32) {
    // R1, R2
    if word.swap(0, Release) & WAITERS != 0 {
        futex_wake_one(word);
    }
}

/// One attempt. The entry is announced for no longer than that: in another PID namespace the holder
/// may have this thread's number, and this thread may be killed while it waits.
fn take(word: &AtomicU32, entry: &impl Taker, seen: u32, next: u32) -> bool {
    entry.announce(); // R3
    let is_taken = word.compare_exchange(seen, next, Acquire, Relaxed).is_ok(); // R1
    if !is_taken {
        entry.withdraw();
    }
    is_taken
}

#[cold]
fn take_slowly(word: &AtomicU32, entry: &impl Taker) {
    let mut turn = spin::Spin::new();
    for _ in 0..SPIN_TURNS {
        let seen = word.load(Relaxed);
        if is_free(seen) && take(word, entry, seen, seen & WAITERS | entry.thread()) {
            return;
        }
        turn.turn();
    }
    loop {
        let seen = word.load(Relaxed);
        if !is_free(seen) {
            sleep(word, seen);
        // R2: others may sleep here too, which who has slept does not know.
        } else if take(word, entry, seen, WAITERS | entry.thread()) {
            return;
        }
    }
}

/// Sleeps while the word is `seen`; whatever ends that, the word says what is so then.
fn sleep(word: &AtomicU32, seen: u32) {
    let asleep = seen | WAITERS;
    // R2
    if word.compare_exchange(seen, asleep, Relaxed, Relaxed).is_ok() {
        futex_wait(word, asleep, Some(LOOK_AGAIN));
    }
}

fn is_free(word: u32) -> bool {
    word & OWNER == 0
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests;
