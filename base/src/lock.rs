//! A process-private lock that survives fork: the child may reset what other threads held.
//!
//! std's mutex cannot be freed in a child whose parent's thread held it. This one can, and it
//! sleeps by a raw futex, so that it may be used beneath libc.
//!
//! Orders: `K1` what was done under the lock before the word says free (release); who takes it
//! acquires. `K2` who finds the lock taken says CONTENDED before it sleeps, and sleeps only while the
//! word says so; who frees it exchanges the word, and wakes one if it said so. `models` shows both
//! under loom.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use crate::spin;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{futex_wait, futex_wake_one, AtomicU32};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;
/// Turns of waiting before sleeping: a holder copies a few kilobytes at most.
const SPIN_TURNS: u32 = if cfg!(loom) { 1 } else { 64 };

/// A value behind a lock; const-constructible, so that tables of them can be static.
pub struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock word admits one holder of `value` at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Access to the value while the lock is held.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// An unlocked value.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// An unlocked value, whose word loom has to make while a model runs.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits until the value is free and takes it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        // K1
        if self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            self.lock_slow();
        }
        Guard(self)
    }

    /// Takes the value if nobody holds it.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let taken = self.word.compare_exchange(FREE, HELD, Acquire, Relaxed); // K1
        taken.ok().map(|_| Guard(self))
    }

    #[cold]
    fn lock_slow(&self) {
        let mut turn = spin::Spin::new();
        for _ in 0..SPIN_TURNS {
            // K1
            if self.word.load(Relaxed) == FREE
                && self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
            {
                return;
            }
            turn.turn();
        }
        // K1, K2: others may sleep here too, which who has slept does not know.
        while self.word.swap(CONTENDED, Acquire) != FREE {
            futex_wait(&self.word, CONTENDED, None);
        }
    }

    /// Frees the lock whoever held it. Only in the child of a fork, where no other thread is.
    pub fn reset_in_forked_child(&self) {
        self.word.store(FREE, Release);
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // K1, K2
        if self.0.word.swap(FREE, Release) == CONTENDED {
            futex_wake_one(&self.0.word);
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the one holder (the word is not FREE while it lives).
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn many_threads_count_without_loss() {
        static COUNT: Lock<u64> = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50_000).for_each(|_| *COUNT.lock() += 1));
            }
        });
        assert_eq!(*COUNT.lock(), 200_000);
    }

    #[test]
    fn a_held_lock_is_not_taken_twice_and_can_be_reset() {
        let lock = Lock::new(1);
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        std::mem::forget(guard);
        lock.reset_in_forked_child();
        assert!(lock.try_lock().is_some());
    }
}
