//! Who is in a memory region, so that it can be moved: counters that a program writes for itself.
//!
//! ```text
//! program        one more here --fence--> word of the region live? --> loads, stores --> one less
//! control plane  word: moving  --fence--> counters all zero?       --> copies the bytes
//! ```
//!
//! One of both sees the other: a program that did not see the word move is counted, and is waited for.
//! The page is the session's, the layout is `abi::memory::presence`.
//!
//! Orders: `V1` the counter before the look at the word, and the word before the look at the counters:
//! a full fence on both sides. `V2` what was loaded and stored in the region before the counter that
//! says that it is over, so that a move copies it.
//!
//! *Hot*: two locked additions on a line that few other threads have.

use std::cell::Cell;
use std::sync::Arc;

use heliostat_abi::memory::presence::{counter_at, PRESENCE_BYTES, PRESENCE_ROWS};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{fence_after_locked, full_fence, shared_u64, AtomicU64};

/// The page, mapped.
#[derive(Clone, Debug)]
pub struct Presence(Arc<SharedMapping>);

/// Somebody is in a region, until this is dropped.
#[derive(Debug)]
pub struct Present<'a>(&'a AtomicU64);

/// The same without a borrow, for as long as somebody likes. It keeps the region from being moved.
#[derive(Debug)]
pub struct Stay {
    page: Arc<SharedMapping>,
    at: usize,
}

impl Presence {
    /// Of a mapped page; `None` where it is too short.
    pub fn new(page: Arc<SharedMapping>) -> Option<Self> {
        (page.len() >= PRESENCE_BYTES).then_some(Self(page))
    }

    /// Says that this thread is in the region of a handle. Its word has to be looked at after that.
    #[inline]
    pub fn enter(&self, handle: ObjectId) -> Present<'_> {
        let counter = shared_u64(self.0.atomic_u64(counter_at(handle, row())));
        begin(counter);
        Present(counter)
    }

    /// The same for somebody who stays.
    pub fn stay(&self, handle: ObjectId) -> Stay {
        let at = counter_at(handle, row());
        begin(shared_u64(self.0.atomic_u64(at)));
        Stay { page: self.0.clone(), at }
    }

    /// Whether nobody is in the region of a handle any more whose word says that it moves. For the
    /// control plane.
    pub fn is_quiet(&self, handle: ObjectId) -> bool {
        full_fence(); // V1
        (0..PRESENCE_ROWS)
            .all(|row| is_zero(shared_u64(self.0.atomic_u64(counter_at(handle, row)))))
    }
}

impl Drop for Present<'_> {
    #[inline]
    fn drop(&mut self) {
        end(self.0);
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        end(shared_u64(self.page.atomic_u64(self.at)));
    }
}

#[inline]
fn begin(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
    fence_after_locked(); // V1
}

#[inline]
fn end(counter: &AtomicU64) {
    counter.fetch_sub(1, Release); // V2
}

fn is_zero(counter: &AtomicU64) -> bool {
    counter.load(Acquire) == 0 // V2
}

/// The row of this thread.
#[inline]
fn row() -> usize {
    thread_local! {
        static ROW: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    ROW.with(|row| match row.get() {
        usize::MAX => {
            let next = next_row();
            row.set(next);
            next
        }
        known => known,
    })
}

#[cold]
fn next_row() -> usize {
    use std::hash::{BuildHasher, RandomState};
    // By chance: a number that threads share would be one more word that they share.
    RandomState::new().hash_one(std::thread::current().id()) as usize % PRESENCE_ROWS
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_quiet_when_everybody_has_left_it() {
        let page = SharedMapping::create(c"presence", PRESENCE_BYTES).unwrap().1;
        let page = Presence::new(Arc::new(page)).unwrap();
        let handle = |index| ObjectId { index, generation: 1 };
        let (one, stay) = (page.enter(handle(1)), page.stay(handle(1)));
        assert!(!page.is_quiet(handle(1)) && page.is_quiet(handle(2)));
        drop(one);
        assert!(!page.is_quiet(handle(1)));
        drop(stay);
        assert!(page.is_quiet(handle(1)));
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let page = page.clone();
                std::thread::spawn(move || page.stay(handle(3)))
            })
            .collect();
        let stays: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        assert!(!page.is_quiet(handle(3)));
        drop(stays);
        assert!(page.is_quiet(handle(3)));
    }
}

#[cfg(all(test, loom))]
#[path = "presence_models.rs"]
mod models;
