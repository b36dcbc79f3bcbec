//! How threads wait for entries to become durable, and who of them drives the device meanwhile.
//!
//! A log needs no thread of its own: whoever waits, and finds that nobody drives, drives. The others
//! sleep in *slots*, one for each batch that may be under way, so that the end of a batch wakes
//! those that wait for it and nobody else. Whoever stops driving passes that on to a sleeper.
//!
//! ```text
//! sleeper                              driver
//!   count += 1                           gives up the role      (R)
//!   fence                      (D)       fence                  (D)
//!   reads word, then condition           any count? -> word += 1, wakes one
//!   role free? takes it                  or: condition holds -> word += 1, wakes all
//!   sleeps while word is the same
//! ```
//!
//! By the fences either the sleeper sees that the role is free (or its condition holds), or the
//! driver sees the count and changes the word.

use std::time::{Duration, Instant};

use heliostat_base::sync::{
    fence, futex_wait, futex_wake_all, futex_wake_one, AtomicU32, Ordering,
};

/// Slots for batches; more than may be under way at once. A model has one.
const BATCH_SLOTS: u64 = if cfg!(loom) { 1 } else { 16 };
/// Batches under way at most, so that no two of them share a slot.
pub(crate) const IN_FLIGHT_MAX: usize = BATCH_SLOTS as usize - 1;

/// Where a thread sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// Woken when this batch ends.
    Batch(u64),
    /// Woken whenever anything has changed.
    Any,
    /// Woken when the role is free; nobody drives who does not sleep here.
    Role,
}

#[derive(Default, Debug)]
struct Sleepers {
    count: AtomicU32,
    word: AtomicU32,
}

/// Drives until there is an answer or nothing to do, and gives the role back.
type Drive<'a, R> = &'a mut dyn FnMut(&mut dyn FnMut() -> Option<R>) -> Option<R>;

/// The sleepers of one log, and the role of its driver.
#[derive(Debug)]
pub(crate) struct Waiting {
    taken: AtomicU32,
    slots: [Sleepers; BATCH_SLOTS as usize + 2],
}

impl Waiting {
    pub(crate) fn new() -> Waiting {
        Waiting { taken: AtomicU32::new(0), slots: std::array::from_fn(|_| Sleepers::default()) }
    }

    /// Announces a sleeper, and says what its word is now. What it waits for is looked at next.
    pub(crate) fn enter(&self, slot: Slot) -> u32 {
        let sleepers = self.sleepers(slot);
        sleepers.count.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst); // D
        sleepers.word.load(Ordering::Acquire)
    }

    /// Sleeps until the word has changed, or for no reason, or for so long.
    pub(crate) fn sleep(&self, slot: Slot, word: u32, timeout: Option<Duration>) {
        futex_wait(&self.sleepers(slot).word, word, timeout);
    }

    /// Ends what `enter` began.
    pub(crate) fn leave(&self, slot: Slot) {
        self.sleepers(slot).count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the role if it is free and nobody stands in line for it.
    pub(crate) fn try_take_role(&self) -> bool {
        self.sleepers(Slot::Role).count.load(Ordering::Relaxed) == 0 && self.take_free_role()
    }

    /// Waits for the role.
    pub(crate) fn take_role(&self) {
        if self.take_free_role() {
            return;
        }
        loop {
            let word = self.enter(Slot::Role);
            let is_mine = self.take_free_role();
            if !is_mine {
                self.sleep(Slot::Role, word, None);
            }
            self.leave(Slot::Role);
            if is_mine {
                return;
            }
        }
    }

    /// Whether somebody stands in line for the role.
    pub(crate) fn is_wanted(&self) -> bool {
        self.sleepers(Slot::Role).count.load(Ordering::Relaxed) > 0
    }

    /// Gives the role back. What is to be driven has to be passed on.
    pub(crate) fn release_role(&self) {
        self.taken.store(0, Ordering::Release); // R
    }

    /// Wakes one who may drive, if nobody does and somebody sleeps: first who stands in line.
    pub(crate) fn pass_on(&self, has_work: impl Fn() -> bool) {
        fence(Ordering::SeqCst); // D
        if self.taken.load(Ordering::Relaxed) != 0 {
            return;
        }
        let is_somebody = |sleepers: &&Sleepers| sleepers.count.load(Ordering::Relaxed) > 0;
        let Some(sleepers) = self.slots.iter().rev().find(is_somebody) else {
            return;
        };
        if self.is_wanted() || has_work() {
            sleepers.word.fetch_add(1, Ordering::Release);
            futex_wake_one(&sleepers.word);
        }
    }

    /// Wakes everybody in a slot. What they wait for was changed before.
    pub(crate) fn wake(&self, slot: Slot) {
        fence(Ordering::SeqCst); // D
        let sleepers = self.sleepers(slot);
        if sleepers.count.load(Ordering::Relaxed) > 0 {
            sleepers.word.fetch_add(1, Ordering::Release);
            futex_wake_all(&sleepers.word);
        }
    }

    /// Wakes everybody.
    pub(crate) fn wake_all(&self) {
        (0..BATCH_SLOTS).for_each(|slot| self.wake(Slot::Batch(slot)));
        self.wake(Slot::Any);
        self.wake(Slot::Role);
    }

    /// Waits until `look` has an answer, or until a time is over. While there is work and nobody drives,
    /// `drive` is called by the one who has taken the role; it gives the role back. `has_ended` tells
    /// whether a batch will wake nobody any more.
    pub(crate) fn wait<R>(
        &self,
        first: Slot,
        until: Option<Instant>,
        look: &mut dyn FnMut() -> Option<R>,
        has_work: &dyn Fn() -> bool,
        has_ended: &dyn Fn(u64) -> bool,
        drive: Drive<'_, R>,
    ) -> Option<R> {
        let is_over = |slot| matches!(slot, Slot::Batch(batch) if has_ended(batch));
        let mut slot = first;
        let answer = loop {
            let word = self.enter(slot);
            let mut found = look();
            let drives = found.is_none() && has_work() && self.try_take_role();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let is_late = left == Some(Duration::ZERO);
            if found.is_none() && !drives && !is_late && !is_over(slot) {
                self.sleep(slot, word, left);
            }
            self.leave(slot);
            if drives {
                found = drive(look);
            } else if is_late || found.is_some() {
                break found;
            }
            if found.is_some() {
                break found;
            }
            // Its batch has ended without it: there was an open entry before it.
            if is_over(slot) {
                slot = Slot::Any;
            }
        };
        // Whoever woke this thread counts on it.
        self.pass_on(has_work);
        answer
    }

    fn take_free_role(&self) -> bool {
        let (free, taken) = (0, 1);
        self.taken.compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
        // R
    }

    fn sleepers(&self, slot: Slot) -> &Sleepers {
        let at = match slot {
            Slot::Batch(number) => number % BATCH_SLOTS,
            Slot::Any => BATCH_SLOTS,
            Slot::Role => BATCH_SLOTS + 1,
        };
        &self.slots[at as usize]
    }
}

#[cfg(all(test, loom))]
mod models;
