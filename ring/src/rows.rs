//! Rows: what a thread of this process counts in by itself, as long as it lives.
//!
//! A locked addition keeps a processor from beginning what comes after it: two of them around each
//! access to memory, and no cache miss overlaps the next. A counter that one thread alone writes needs
//! none, so each thread has a row of such counters. Threads that find no row free have counters that
//! they share, with locked additions.
//!
//! Orders: `T1` what a thread has counted in its row before the row is free for the next one.
//!
//! *Hot*: [`Row::own`] is one load of the thread's own memory.

use std::cell::Cell;

use heliostat_abi::memory::presence::PRESENCE_ROWS;

use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{fence_after_locked, light_fence, AtomicU64};

/// How many rows there are.
pub const ROWS: usize = PRESENCE_ROWS;
const _: () = assert!(ROWS == u64::BITS as usize);
/// That of threads that have none of their own.
const SHARED: usize = ROWS;
/// That of a thread that has not asked yet.
const UNKNOWN: usize = usize::MAX;

/// A thread's row, or that which the threads without one share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row(usize);

impl Row {
    /// That which threads share.
    pub const SHARED: Row = Row(SHARED);

    /// That of this thread.
    #[inline]
    pub fn own() -> Row {
        match OWN.get() {
            UNKNOWN => first(),
            known => Row(known),
        }
    }

    #[cfg(all(loom, test))]
    pub(crate) fn of_model(number: usize) -> Row {
        Row(number)
    }

    /// Its number; [`ROWS`] where it is shared.
    #[inline]
    pub fn number(self) -> usize {
        self.0
    }

    /// Whether this thread alone writes in it.
    #[inline]
    pub fn is_own(self) -> bool {
        self.0 < ROWS
    }
}

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(UNKNOWN) };
    static HELD: Held = const { Held(Cell::new(SHARED)) };
}

/// Gives the row back when its thread ends.
struct Held(Cell<usize>);

impl Drop for Held {
    fn drop(&mut self) {
        // What runs in this thread after that finds no `HELD`, and shares.
        OWN.set(UNKNOWN);
        #[cfg(not(loom))]
        TAKEN.give_back(self.0.get());
    }
}

#[cold]
fn first() -> Row {
    #[cfg(not(loom))]
    let taken = HELD.try_with(|held| {
        held.0.set(TAKEN.take().unwrap_or(SHARED));
        held.0.get()
    });
    #[cfg(loom)]
    let taken = HELD.try_with(|held| held.0.get());
    let Ok(row) = taken else { return Row::SHARED };
    OWN.set(row);
    Row(row)
}

/// Those of this process. A child of a fork has the rows of its parent's threads taken, too, of which it
/// has one: what is counted in them there says nothing that is too little.
#[cfg(not(loom))]
static TAKEN: Taken = Taken(AtomicU64::new(0));

/// Which rows somebody has: a bit each.
pub(crate) struct Taken(AtomicU64);

impl Taken {
    #[cfg(all(loom, test))]
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes the first that is free.
    pub(crate) fn take(&self) -> Option<usize> {
        let mut taken = self.0.load(Relaxed);
        loop {
            let row = taken.trailing_ones() as usize;
            if row >= ROWS {
                return None;
            }
            // T1
            match self.0.compare_exchange_weak(taken, taken | 1 << row, Acquire, Relaxed) {
                Ok(_) => return Some(row),
                Err(found) => taken = found,
            }
        }
    }

    /// Makes one free. The shared one is nobody's.
    pub(crate) fn give_back(&self, row: usize) {
        if row < ROWS {
            self.0.fetch_and(!(1 << row), AcqRel); // T1
        }
    }
}

/// One more, in a counter that this thread alone writes. What it looks at afterwards is looked at after
/// that for those who make the heavy fence. What was done before is before it.
#[inline(always)]
pub(crate) fn begin_alone(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Release);
    light_fence();
}

/// One less, in such a counter. What was done before is before it.
#[inline(always)]
pub(crate) fn end_alone(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_sub(1), Release);
}

/// As [`begin_alone`], in a counter that threads share.
#[inline]
pub(crate) fn begin_shared(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
    fence_after_locked();
}

/// As [`end_alone`], in such a counter.
#[inline]
pub(crate) fn end_shared(counter: &AtomicU64) {
    counter.fetch_sub(1, Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn rows_are_taken_once_and_come_back() {
        let taken = Taken(AtomicU64::new(0));
        let all: Vec<_> = (0..ROWS).map(|_| taken.take().unwrap()).collect();
        assert_eq!(all, (0..ROWS).collect::<Vec<_>>());
        assert_eq!(taken.take(), None);
        taken.give_back(SHARED);
        assert_eq!(taken.take(), None);
        taken.give_back(5);
        assert_eq!((taken.take(), taken.take()), (Some(5), None));
    }

    #[test]
    fn a_thread_keeps_its_row_and_leaves_it_to_another_one() {
        // More threads than rows, one after the other: whoever ends gives its own back.
        for _ in 0..3 * ROWS {
            let row = std::thread::spawn(|| {
                let row = Row::own();
                assert_eq!(row, Row::own());
                row
            });
            assert!(row.join().unwrap().is_own());
        }
    }

    #[test]
    fn threads_at_the_same_time_have_different_rows() {
        let meet = std::sync::Barrier::new(8);
        let mut rows: Vec<_> = std::thread::scope(|scope| {
            let own = || {
                let row = Row::own().number();
                meet.wait();
                row
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(own)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), 8);
    }
}
