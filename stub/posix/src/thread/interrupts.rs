//! Handlers that have run on a thread, counted: a call that began at one count and finds another has
//! been interrupted, wherever within it the handler ran.

use std::cell::Cell;

use super::SECTIONS;

thread_local! {
    static ASLEEP: Cell<Began> = const { Cell::new(Began::NEVER) };
}

/// Counts of handlers run by this thread: all, and those without SA_RESTART.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupts {
    any: u32,
    hard: u32,
}

/// No handler has run.
pub(super) const NONE: Interrupts = Interrupts { any: 0, hard: 0 };

impl Interrupts {
    /// The counts now.
    #[inline]
    pub fn now() -> Self {
        SECTIONS.with(|sections| sections.counts.get())
    }

    /// The counts after one more handler.
    pub(super) fn and_one(self, restarts: bool) -> Self {
        let hard = self.hard.wrapping_add(u32::from(!restarts));
        Self { any: self.any.wrapping_add(1), hard }
    }

    /// A handler ran since then (what epoll_wait, poll and select ask: they never restart).
    #[inline]
    pub fn any_since(self) -> bool {
        Self::now().any != self.any
    }

    /// A handler without SA_RESTART ran since then (what reads and writes ask).
    #[inline]
    pub fn hard_since(self) -> bool {
        Self::now().hard != self.hard
    }
}

/// When a call of the program's began. It may sleep several times, and returns to the kernel for each
/// sleep that has no frame of ours beneath it.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    /// The counts when it began.
    pub interrupts: Interrupts,
    /// Monotonic time of its first sleep; 0 before that.
    pub slept_ns: u64,
}

impl Began {
    const NEVER: Self = Self { interrupts: NONE, slept_ns: 0 };

    /// Now.
    #[inline]
    pub fn now() -> Self {
        Self { interrupts: Interrupts::now(), slept_ns: 0 }
    }

    /// The call is about to sleep without a frame, `now_ns` by the monotonic clock.
    pub fn sleep(self, now_ns: u64) {
        let slept_ns = if self.slept_ns == 0 { now_ns } else { self.slept_ns };
        Self { slept_ns, ..self }.keep();
    }

    /// The call of this thread that has slept without a frame, or does.
    pub fn of_sleep() -> Self {
        ASLEEP.with(Cell::get)
    }

    /// Puts back what `of_sleep` gave.
    pub fn keep(self) {
        ASLEEP.with(|asleep| asleep.set(self));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::run_handler;

    #[test]
    fn a_handler_with_restart_is_counted_and_does_not_interrupt() {
        let began = Interrupts::now();
        run_handler(true, || ());
        assert!(began.any_since() && !began.hard_since());
        run_handler(false, || ());
        assert!(began.hard_since());
    }

    #[test]
    fn a_call_that_sleeps_again_keeps_the_time_of_its_first_sleep() {
        Began::now().sleep(7);
        Began::of_sleep().sleep(9);
        assert_eq!(Began::of_sleep().slept_ns, 7);
    }
}
