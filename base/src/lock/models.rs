//! Loom: the orders K1 and K2 of a lock, explored over all interleavings.
//!
//! What is under the lock is watched, so that two holders at once, or one that does not see what
//! the last one did, are reported as a data race; a lost wake-up is reported as a deadlock.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::Watched;

fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}

fn count(lock: &Lock<Watched<u32>>) {
    let guard = lock.lock();
    guard.set(guard.get() + 1);
}

#[test]
fn loom_two_threads_that_come_twice_hold_it_one_at_a_time_and_none_sleeps_for_ever() {
    model(4, || {
        let lock = Arc::new(Lock::new(Watched::new(0)));
        let other = lock.clone();
        let thread = thread::spawn(move || (0..2).for_each(|_| count(&other)));
        (0..2).for_each(|_| count(&lock));
        thread.join().unwrap();
        assert_eq!(lock.lock().get(), 4);
    });
}

#[test]
fn loom_of_three_threads_all_that_sleep_are_woken_by_a_wake_up_each() {
    model(3, || {
        let lock = Arc::new(Lock::new(Watched::new(0)));
        let threads = [(); 2].map(|()| {
            let other = lock.clone();
            thread::spawn(move || count(&other))
        });
        count(&lock);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(lock.lock().get(), 3);
    });
}

#[test]
fn loom_who_only_tries_takes_it_or_leaves_it_and_owes_nobody_a_wake_up() {
    model(4, || {
        let lock = Arc::new(Lock::new(Watched::new(0)));
        let other = lock.clone();
        let thread = thread::spawn(move || count(&other));
        if let Some(guard) = lock.try_lock() {
            guard.set(guard.get() + 1);
        }
        thread.join().unwrap();
    });
}
