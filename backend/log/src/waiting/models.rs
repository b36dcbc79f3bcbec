//! Loom: nobody sleeps for ever while there is work, over interleavings of waiting and driving.
//!
//! A log of two words stands for the real one: driving makes durable what is sealed.

use loom::sync::Arc;
use loom::thread;

use heliostat_base::sync::AtomicU64;

use super::*;

/// Switches that loom forces on a thread; more take hours.
const PREEMPTIONS: usize = 3;

struct Log {
    waiting: Waiting,
    sealed: AtomicU64,
    durable: AtomicU64,
}

impl Log {
    fn new() -> Arc<Log> {
        let (sealed, durable) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Log { waiting: Waiting::new(), sealed, durable })
    }

    fn has_work(&self) -> bool {
        self.sealed.load(Ordering::Acquire) != self.durable.load(Ordering::Acquire)
    }

    /// Appends one, and says how many there are then.
    fn seal(&self) -> u64 {
        let end = self.sealed.fetch_add(1, Ordering::AcqRel) + 1;
        self.waiting.pass_on(|| self.has_work());
        end
    }

    fn wait(&self, slot: Slot, end: u64) {
        let mut look = || (self.durable.load(Ordering::Acquire) >= end).then_some(());
        let has_ended = |_| self.durable.load(Ordering::Acquire) > 0;
        let mut drive = |look: &mut dyn FnMut() -> Option<()>| {
            let mut found = None;
            while found.is_none() && self.has_work() {
                self.step();
                found = look();
            }
            self.release();
            found
        };
        self.waiting.wait(slot, None, &mut look, &|| self.has_work(), &has_ended, &mut drive);
    }

    /// What a driver does: one batch becomes durable.
    fn step(&self) {
        let sealed = self.sealed.load(Ordering::Acquire);
        self.durable.store(sealed, Ordering::Release);
        self.waiting.wake(Slot::Batch(0));
        self.waiting.wake(Slot::Any);
    }

    fn release(&self) {
        self.waiting.release_role();
        self.waiting.pass_on(|| self.has_work());
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

#[test]
fn loom_two_who_append_and_wait_both_come_back() {
    explore(|| {
        let log = Log::new();
        let other = log.clone();
        let thread = thread::spawn(move || other.wait(Slot::Batch(0), other.seal()));
        log.wait(Slot::Any, log.seal());
        thread.join().unwrap();
    });
}

#[test]
fn loom_who_waits_for_what_another_seals_is_woken_to_drive_it() {
    explore(|| {
        let log = Log::new();
        let other = log.clone();
        let thread = thread::spawn(move || other.wait(Slot::Any, 1));
        log.seal();
        thread.join().unwrap();
    });
}

#[test]
fn loom_who_wants_the_role_gets_it_and_the_driver_goes_on_after_that() {
    explore(|| {
        let log = Log::new();
        let other = log.clone();
        let thread = thread::spawn(move || other.wait(Slot::Any, other.seal()));
        log.waiting.take_role();
        log.release();
        thread.join().unwrap();
    });
}
