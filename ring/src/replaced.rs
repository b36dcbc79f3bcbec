//! A value that threads read while others replace it: read-copy-update, within one process.
//!
//! ```text
//! reader    section begun --light fence--> which value? --> reads it --> section over
//! replacer  another value --heavy fence--> each section over, or another one? --> the old one is dropped
//! ```
//!
//! A reader makes no locked instruction, so that its cache misses overlap the next reader's. Whoever
//! replaces a value pays for it, and waits for nobody long: an old value that somebody may read stays
//! until the next is replaced, or until all of it ends.
//!
//! Orders: `U1` a section's begin before the look at the value, and the other value before the look at
//! the sections: light and heavy fence. `U2` what was read in a section before its end, and before the
//! begin of the next one. `U3` what is in a value before it is there to be found.
//!
//! *Hot*: two additions to a word of the thread's own.

use std::marker::PhantomData;
use std::sync::Arc;

use super::rows::{begin_alone, begin_shared, end_alone, end_shared, Row, ROWS};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{yield_now, AtomicPtr, AtomicU64, Mutex};

/// In a section's word: how many are begun and not over, one in the other.
const DEPTH: u64 = 0xffff;
/// The same word counts the outermost ones above that.
const OUTERMOST: u64 = DEPTH + 1;
/// How often a section is looked at that does not end.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 1000 };

/// One for each row, and the shared one's; a model has one row.
const LINES: usize = if cfg!(loom) { 2 } else { ROWS + 1 };

/// The words of all rows.
pub(crate) struct Words([Line; LINES]);

/// A word that no other thread's neighbours: processors fetch lines in pairs.
#[repr(align(128))]
struct Line(AtomicU64);

#[cfg(not(loom))]
static WORDS: Words = Words([const { Line(AtomicU64::new(0)) }; LINES]);

/// This thread reads values, until this is dropped.
pub struct Section<'a> {
    word: &'a AtomicU64,
    row: Row,
    /// It is of this thread.
    thread: PhantomData<*const ()>,
}

impl Section<'_> {
    /// Begins one. It should be short: replaced values stay as long as it does.
    #[inline(always)]
    #[cfg(not(loom))]
    pub fn begin() -> Section<'static> {
        WORDS.begin(Row::own())
    }

    /// The row of this thread.
    #[inline]
    pub fn row(&self) -> Row {
        self.row
    }
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.row.is_own() {
            end_alone(self.word); // U2
        } else {
            end_shared(self.word);
        }
    }
}

impl Words {
    #[inline(always)]
    pub(crate) fn begin(&self, row: Row) -> Section<'_> {
        let word = &self.0[row.number().min(LINES - 1)].0;
        if row.is_own() {
            let is_outermost = word.load(Relaxed) & DEPTH == 0;
            let more = if is_outermost { OUTERMOST + 1 } else { 1 };
            begin_alone(word, more); // U1, U2
        } else {
            begin_shared(word);
        }
        Section { word, row, thread: PhantomData }
    }

    /// Whether all sections are over, once, that were begun before the heavy fence.
    fn are_over(&self) -> bool {
        let mut looks = LOOKS;
        self.0.iter().all(|line| {
            let first = line.0.load(Acquire); // U2
            let mut now = first;
            while now & DEPTH != 0 && now / OUTERMOST == first / OUTERMOST {
                if looks == 0 {
                    return false;
                }
                looks -= 1;
                yield_now();
                now = line.0.load(Acquire); // U2
            }
            true
        })
    }
}

/// A value that may be replaced.
pub struct Replaced<T> {
    /// Of an `Arc`, whose count has one for it.
    now: AtomicPtr<T>,
    old: Mutex<Vec<Arc<T>>>,
    /// As an `Arc` is: sent and shared where that may be.
    value: PhantomData<Arc<T>>,
}

impl<T> Replaced<T> {
    /// A value.
    pub fn new(value: T) -> Self {
        let now = AtomicPtr::new(Arc::into_raw(Arc::new(value)).cast_mut());
        Self { now, old: Mutex::new(Vec::new()), value: PhantomData }
    }

    /// Returns the value that is there now, for as long as the section is.
    #[inline]
    pub fn get<'a>(&'a self, _section: &'a Section<'_>) -> &'a T {
        // SAFETY: `now` is an Arc's. Its count goes only once this section is over (U1), which the
        // result does not outlive, or with `self`, which is borrowed.
        unsafe { &*self.now.load(Acquire) } // U3
    }

    /// Returns it for longer.
    #[cfg(not(loom))]
    pub fn load(&self) -> Arc<T> {
        let section = Section::begin();
        let value: *const T = self.get(&section);
        // SAFETY: the value came from an Arc, whose count is one at least while the section lasts.
        unsafe {
            Arc::increment_strong_count(value);
            Arc::from_raw(value)
        }
    }

    /// Replaces it. The old one is dropped when nobody reads it any more, perhaps later.
    #[cfg(not(loom))]
    pub fn replace(&self, value: T) {
        // Whoever reads is reached by the fence from here on, in a child of a fork too.
        let is_reached = heliostat_base::membarrier::register().is_ok();
        self.replace_in(&WORDS, value, || is_reached && crate::sync::heavy_fence());
    }

    fn replace_in(&self, words: &Words, value: T, heavy_fence: impl FnOnce() -> bool) {
        let value = Arc::into_raw(Arc::new(value)).cast_mut();
        let old = self.now.swap(value, AcqRel); // U3
                                                // SAFETY: it came from `into_raw`, and was taken out once. Its count is this one's now.
        let old = unsafe { Arc::from_raw(old.cast_const()) };
        let unread = {
            let mut kept = self.old.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            kept.push(old);
            // U1. Under the lock: what is kept was replaced before it.
            let is_free = heavy_fence() && words.are_over();
            if is_free {
                std::mem::take(&mut *kept)
            } else {
                Vec::new()
            }
        };
        drop(unread);
    }
}

impl<T> Drop for Replaced<T> {
    fn drop(&mut self) {
        // SAFETY: as in `replace_in`; nobody has borrowed `self`, and so nobody reads.
        drop(unsafe { Arc::from_raw(self.now.load(Relaxed).cast_const()) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// Sections are the process's, and so each other's: one test at a time.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    /// Counts those that are there.
    struct Counted<'a>(&'a AtomicUsize, u64);

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }

    fn counted(count: &AtomicUsize, number: u64) -> Counted<'_> {
        count.fetch_add(1, SeqCst);
        Counted(count, number)
    }

    #[test]
    fn a_value_that_is_read_stays_and_goes_with_the_next() {
        let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = AtomicUsize::new(0);
        let value = Replaced::new(counted(&count, 1));
        {
            let section = Section::begin();
            let one = value.get(&section);
            std::thread::scope(|scope| {
                scope.spawn(|| value.replace(counted(&count, 2)));
            });
            assert_eq!((one.1, value.get(&section).1, count.load(SeqCst)), (1, 2, 2));
        }
        let held = value.load();
        value.replace(counted(&count, 3));
        assert_eq!((held.1, count.load(SeqCst)), (2, 2), "the first is gone, the second is held");
        drop(held);
        assert_eq!(count.load(SeqCst), 1);
        drop(value);
        assert_eq!(count.load(SeqCst), 0);
    }

    #[test]
    fn sections_lie_in_each_other() {
        let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = AtomicUsize::new(0);
        let value = Replaced::new(counted(&count, 1));
        let outer = Section::begin();
        for _ in 0..3 {
            drop(Section::begin());
        }
        std::thread::scope(|scope| {
            scope.spawn(|| value.replace(counted(&count, 2)));
        });
        assert_eq!((value.get(&outer).1, count.load(SeqCst)), (2, 2));
    }

    #[test]
    fn readers_never_find_one_that_is_gone() {
        let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = AtomicUsize::new(0);
        let value = Replaced::new(counted(&count, 0));
        let stop = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = 0;
                    while stop.load(SeqCst) == 0 {
                        let section = Section::begin();
                        let found = value.get(&section).1;
                        assert!(found >= last && found < 1000, "{found} after {last}");
                        last = found;
                    }
                });
            }
            for number in 1..200 {
                value.replace(counted(&count, number));
            }
            stop.store(1, SeqCst);
        });
        value.replace(counted(&count, 200));
        assert_eq!(count.load(SeqCst), 1);
    }
}

#[cfg(all(test, loom))]
#[path = "replaced_models.rs"]
mod models;
