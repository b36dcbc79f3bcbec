//! Who is in a memory region, so that it can be moved: counters that a program writes for itself.
//!
//! ```text
//! program        one more here --fence--> word of the region live? --> loads, stores --> one less
//! control plane  word: moving  --fence--> counters all zero?       --> copies the bytes
//! ```
//!
//! One of both sees the other: a program that did not see the word move is counted, and is waited for.
//! The page is the session's, the layout is `abi::memory::presence`. A thread has counters of its own
//! there, and adds to them without a lock where both sides have agreed that the control plane makes both
//! fences, by the kernel; else, and in counters that threads share, by locked additions, which are one.
//!
//! Orders: `V1` the counter before the look at the word, and the word before the look at the counters:
//! light and heavy fence, or a full one on both sides. `V2` what was loaded and stored in the region
//! before the counter that says that it is over, so that a move copies it. `V3` the number of rows in
//! use before a counter in them, and behind the look at the word as the counters are.
//!
//! *Hot*: two additions to a word that no other thread writes.

use std::marker::PhantomData;
use std::sync::Arc;

use heliostat_abi::memory::presence::{
    counter_at, shared_counter_at, PRESENCE_BYTES, PRESENCE_ROWS, ROWS_IN_USE,
};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::sys::Errno;
use heliostat_base::unforked::Unforked;

use super::rows::{begin_alone, begin_shared, end_alone, end_shared, Row};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{full_fence, heavy_fence, shared_u64, AtomicU64};

/// A word of the program's own: rows that are in use and may be added to without a lock.
const ROWS_ALONE: usize = 0;
/// Another one: 1 in the process that mapped the page. In a child of a fork both are zero.
const IS_OURS: usize = 1;

/// The page, as its program has mapped it.
#[derive(Clone, Debug)]
pub struct Presence(Arc<Page>);

#[derive(Debug)]
struct Page {
    counters: Arc<SharedMapping>,
    own: Unforked,
    is_fenced: bool,
}

/// Somebody is in a region, until this is dropped.
#[derive(Debug)]
pub struct Present<'a> {
    counter: &'a AtomicU64,
    is_alone: bool,
    /// It is of this thread.
    thread: PhantomData<*const ()>,
}

/// The same without a borrow, for as long as somebody likes. It keeps the region from being moved.
#[derive(Debug)]
pub struct Stay {
    page: Arc<Page>,
    at: usize,
    is_of_ours: bool,
}

impl Presence {
    /// Of a mapped page; `None` where it is too short. Whether the control plane makes both fences: it
    /// has said so, to a program that had registered for that before.
    ///
    /// # Errors
    /// There is no memory for what the process keeps beside it.
    pub fn new(counters: Arc<SharedMapping>, is_fenced: bool) -> Result<Option<Self>, Errno> {
        if counters.len() < PRESENCE_BYTES {
            return Ok(None);
        }
        let own = Unforked::new()?;
        own.word(IS_OURS).store(1, Relaxed);
        Ok(Some(Self(Arc::new(Page { counters, own, is_fenced }))))
    }

    /// Says that this thread, whose row it is, is in the region of a handle. Its word has to be looked
    /// at after that.
    #[inline(always)]
    pub fn enter(&self, row: Row, handle: ObjectId) -> Present<'_> {
        let page = &*self.0;
        let rows = page.own.word(ROWS_ALONE).load(Acquire); // V3
        if (row.number() as u64) < rows {
            return page.enter_alone(row, handle);
        }
        page.enter_otherwise(row, handle)
    }

    /// The same for somebody who stays, and may leave in another thread.
    pub fn stay(&self, handle: ObjectId) -> Stay {
        let (page, at) = (self.0.clone(), shared_counter_at(handle));
        begin_shared(page.counter(at)); // V1
        let is_of_ours = page.is_ours();
        Stay { page, at, is_of_ours }
    }
}

impl Page {
    #[inline(always)]
    fn enter_alone(&self, row: Row, handle: ObjectId) -> Present<'_> {
        let counter = self.counter(counter_at(handle, row.number()));
        begin_alone(counter, 1); // V1
        Present { counter, is_alone: true, thread: PhantomData }
    }

    /// The first time in a row; where no fences were agreed upon; without a row; in a child of a fork,
    /// whose parent's the rows are.
    #[inline(never)]
    fn enter_otherwise(&self, row: Row, handle: ObjectId) -> Present<'_> {
        let is_own = row.is_own() && self.is_ours();
        if is_own {
            let used = row.number() as u64 + 1;
            self.counter(ROWS_IN_USE).fetch_max(used, AcqRel); // V3
            if self.is_fenced {
                self.own.word(ROWS_ALONE).fetch_max(used, Release); // V3
                return self.enter_alone(row, handle);
            }
        }
        let at = if is_own { counter_at(handle, row.number()) } else { shared_counter_at(handle) };
        let counter = self.counter(at);
        begin_shared(counter); // V1
        Present { counter, is_alone: false, thread: PhantomData }
    }

    #[inline(always)]
    fn counter(&self, at: usize) -> &AtomicU64 {
        shared_u64(self.counters.atomic_u64(at))
    }

    fn is_ours(&self) -> bool {
        self.own.word(IS_OURS).load(Relaxed) == 1
    }
}

impl Drop for Present<'_> {
    #[inline]
    fn drop(&mut self) {
        // V2
        if self.is_alone {
            end_alone(self.counter);
        } else {
            end_shared(self.counter);
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // A child of a fork has its parent's, who stays.
        if !self.is_of_ours || self.page.is_ours() {
            end_shared(self.page.counter(self.at)); // V2
        }
    }
}

/// The page of a session, for the control plane.
#[derive(Clone, Debug)]
pub struct Watch {
    page: Arc<SharedMapping>,
    is_fenced: bool,
}

/// The control plane's fence between the words that it has written and counters that it looks at.
#[derive(Clone, Copy, Debug)]
pub struct Fence {
    is_heavy: bool,
}

impl Fence {
    /// Makes it, for all words that were written before.
    pub fn made() -> Self {
        full_fence(); // V1
        Self { is_heavy: heavy_fence() }
    }

    /// Whether the kernel made it in programs too.
    pub fn is_heavy(&self) -> bool {
        self.is_heavy
    }
}

impl Watch {
    /// Of a mapped page; `None` where it is too short. Whether its program was told that the control plane
    /// makes both fences.
    pub fn new(page: Arc<SharedMapping>, is_fenced: bool) -> Option<Self> {
        (page.len() >= PRESENCE_BYTES).then_some(Self { page, is_fenced })
    }

    /// Whether its program was told that the control plane makes both fences.
    pub fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Whether nobody is in the region of a handle any more whose word said that it moves before the fence.
    pub fn is_quiet(&self, handle: ObjectId, fence: &Fence) -> bool {
        if self.is_fenced && !fence.is_heavy {
            return false; // nobody can tell
        }
        let at = |at| shared_u64(self.page.atomic_u64(at));
        let rows = at(ROWS_IN_USE).load(Acquire).min(PRESENCE_ROWS as u64) as usize; // V3
        is_zero(at(shared_counter_at(handle)))
            && (0..rows).all(|row| is_zero(at(counter_at(handle, row))))
    }
}

fn is_zero(counter: &AtomicU64) -> bool {
    counter.load(Acquire) == 0 // V2
}

#[cfg(all(test, not(loom)))]
#[path = "presence_tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "presence_models.rs"]
mod models;
