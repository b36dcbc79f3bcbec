//! Loom: the orders T1 to T3 of a turn, explored over all interleavings.
//!
//! The listener is watched: two threads that receive at once are reported as a data race. A watch
//! that sleeps while a call is answered is reported as a deadlock.

use heliostat_base::sync::Watched;
use loom::sync::Arc;
use loom::thread;

use super::*;

struct Harness {
    turn: Turn,
    held: HeldUp,
    listener: Watched<u64>,
}

fn model(preemptions: usize, f: impl Fn(Arc<Harness>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let (turn, held) = (Turn::new(), HeldUp::default());
        f(Arc::new(Harness { turn, held, listener: Watched::new(0) }))
    });
}

impl Harness {
    /// Receives and answers up to `calls` calls, as `Dispatcher::receive` of `serve.rs` does; whether it
    /// was held up in one.
    fn receive(&self, thread: i32, calls: u64) -> bool {
        for _ in 0..calls {
            let call = self.listener.get() + 1;
            self.listener.set(call);
            let busy = self.turn.begin(Answering { call, thread, caller: 100 + thread });
            if !self.turn.end(busy) {
                assert!(self.held.has(call, thread), "a call that is held up is entered");
                self.held.remove(call, thread);
                return true;
            }
        }
        false
    }
}

#[test]
fn loom_one_thread_receives_at_a_time_and_nothing_stays_entered() {
    model(4, |harness| {
        let other = harness.clone();
        let second = thread::spawn(move || {
            let is_taken = other.turn.take_over(1, &other.held);
            if is_taken {
                other.receive(2, 1);
            }
            is_taken
        });
        let was_held_up = harness.receive(1, 2);
        assert_eq!(second.join().unwrap(), was_held_up);
        assert!(harness.held.is_empty());
        assert!(!is_busy(harness.turn.count()));
    });
}

#[test]
fn loom_who_comes_late_to_relieve_a_call_that_has_ended_takes_nothing_out_of_another() {
    model(3, |harness| {
        let reliefs = [1, 3].map(|busy| {
            let harness = harness.clone();
            thread::spawn(move || harness.turn.take_over(busy, &harness.held))
        });
        let was_held_up = harness.receive(1, 2);
        let taken = reliefs.map(|thread| thread.join().unwrap());
        assert_eq!(taken.contains(&true), was_held_up);
        assert!(harness.held.is_empty());
    });
}

#[test]
fn loom_the_watch_sleeps_only_while_nobody_answers() {
    model(4, |harness| {
        let watched = harness.clone();
        let watch = thread::spawn(move || {
            let count = watched.turn.count();
            if !is_busy(count) && count == 0 {
                watched.turn.sleep_until_busy(count, || None);
                assert!(watched.turn.count() > 0);
            }
        });
        harness.receive(1, 1);
        watch.join().unwrap();
    });
}
