//! Whose turn it is to receive calls: one thread's at a time, and another's when that is held up.
//!
//! ```text
//! count: 2n --begin--> 2n + 1 (answers) --end, by the same thread--> 2n + 2
//!                                       \-take over, by another----> 2n + 2
//! ```
//!
//! The thread whose `end` fails has lost its turn: another receives by now. What it answers meanwhile
//! is entered as held up by who takes over, and taken out by itself. Who watches sleeps while nobody
//! answers.
//!
//! Orders (`models` shows them under loom): `T1` who receives does so before it begins to answer, and
//! says whom it answers (release); who takes over acquires, and receives then. `T2` the count is odd
//! before the look whether the watch sleeps; the watch says that it sleeps before it looks at the
//! count. Both are exchanges, so that one of both sees the other. `T3` an entry stands before the turn
//! is taken over; whose turn was taken sees it.

use std::time::Duration;

use heliostat_base::sync::Ordering::{AcqRel, Acquire, Relaxed};
use heliostat_base::sync::{AtomicBool, AtomicI32, AtomicU64, Condvar, Mutex};

use crate::held::HeldUp;

/// A call that is answered: its number, the thread of ours that does so, and the one that asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answering {
    /// Number of the call.
    pub call: u64,
    /// Our thread.
    pub thread: i32,
    /// The thread that waits for the answer.
    pub caller: i32,
}

/// Whose turn it is.
#[derive(Debug)]
pub struct Turn {
    count: AtomicU64,
    call: AtomicU64,
    thread: AtomicI32,
    caller: AtomicI32,
    /// The watch sleeps, until there is something to watch.
    sleeps: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

/// True for a count at which a call is answered.
pub fn is_busy(count: u64) -> bool {
    count % 2 == 1
}

impl Turn {
    /// Nobody answers.
    pub fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            call: AtomicU64::new(0),
            thread: AtomicI32::new(0),
            caller: AtomicI32::new(0),
            sleeps: AtomicBool::new(false),
            lock: Mutex::new(()),
            bell: Condvar::new(),
        }
    }

    /// The count now.
    pub fn count(&self) -> u64 {
        self.count.load(Acquire)
    }

    /// What is answered, or was last.
    pub fn answering(&self) -> Answering {
        Answering {
            call: self.call.load(Relaxed),
            thread: self.thread.load(Relaxed),
            caller: self.caller.load(Relaxed),
        }
    }

    /// The thread whose turn it is has received a call, and begins to answer it.
    pub fn begin(&self, answering: Answering) -> u64 {
        self.call.store(answering.call, Relaxed);
        self.thread.store(answering.thread, Relaxed);
        self.caller.store(answering.caller, Relaxed);
        // T1, T2
        let busy = self.count.fetch_add(1, AcqRel).wrapping_add(1);
        // T2
        if self.sleeps.swap(false, AcqRel) {
            let _held = self.lock.lock();
            self.bell.notify_one();
        }
        busy
    }

    /// It has answered; false where it has lost its turn.
    pub fn end(&self, busy: u64) -> bool {
        // T3
        self.count.compare_exchange(busy, busy.wrapping_add(1), AcqRel, Acquire).is_ok()
    }

    /// Takes the turn from the thread that answers since the count was `busy`; false where it has
    /// ended. By the thread that will receive from now on, and once for each count.
    pub fn take_over(&self, busy: u64, held: &HeldUp) -> bool {
        // Read between a look at the count and the exchange, which say that it is this call; and
        // entered before the exchange, since the call may end afterwards, and takes its entry out.
        if self.count() != busy {
            return false;
        }
        let now = self.answering();
        held.insert(now.call, now.thread, now.caller);
        let next = busy.wrapping_add(1);
        // T1, T3
        let is_taken = self.count.compare_exchange(busy, next, AcqRel, Acquire).is_ok();
        if !is_taken {
            held.remove(now.call, now.thread);
        }
        is_taken
    }

    /// The watch sleeps as long as the count is `idle`. `look` is called before each sleep and says
    /// how long that may last.
    pub fn sleep_until_busy(&self, idle: u64, mut look: impl FnMut() -> Option<Duration>) {
        let Ok(mut locked) = self.lock.lock() else { return };
        // T2
        self.sleeps.swap(true, AcqRel);
        while self.count.load(Acquire) == idle && self.sleeps.load(Acquire) {
            let again = match look() {
                None => self.bell.wait(locked).ok(),
                Some(pause) => self.bell.wait_timeout(locked, pause).ok().map(|(locked, _)| locked),
            };
            let Some(again) = again else { return };
            locked = again;
        }
        self.sleeps.store(false, Relaxed);
    }
}

#[cfg(all(test, loom))]
mod models;
