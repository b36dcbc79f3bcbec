//! Loom: a word beside two rings wakes as an element does: a call, and its answer.

use std::sync::Arc as StdArc;

use loom::thread;

use super::spsc;
use crate::doorbell::Patience;
use crate::probe::Immortal;
use crate::sync::{AtomicU64, Ordering};

#[test]
fn neither_who_waits_for_a_call_nor_who_waits_for_its_answer_sleeps_past_it() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (there, mut asked) = spsc(64);
        let (back, mut answered) = spsc(64);
        let turn = StdArc::new(AtomicU64::new(0));
        let seen = turn.clone();
        let server = thread::spawn(move || {
            let is_asked = || seen.load(Ordering::Acquire) == 1;
            asked.wait_or(&Patience::ENDLESS, &Immortal, is_asked).expect("asks");
            assert!(asked.arm_word_or(is_asked).is_none());
            seen.store(2, Ordering::Release);
            back.ring();
            (asked, back)
        });
        // The server may come as far as its sleep: who has given way goes on when others do.
        thread::yield_now();
        turn.store(1, Ordering::Release);
        there.ring();
        let is_answered = || turn.load(Ordering::Acquire) == 2;
        answered.wait_or(&Patience::ENDLESS, &Immortal, is_answered).expect("answers");
        drop(server.join().unwrap());
    });
}
