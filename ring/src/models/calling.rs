//! Loom: a call in a line beside two rings, and its answer, wake as an element does.

use loom::thread;

use super::spsc;
use crate::call_line::models::Cells;
use crate::call_line::{Answerer, Asker};
use crate::doorbell::Patience;
use crate::probe::Immortal;

#[test]
fn neither_who_waits_for_a_call_nor_who_waits_for_its_answer_sleeps_past_it() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (there, mut asked) = spsc(64);
        let (back, mut answered) = spsc(64);
        let line = Cells::default();
        let (mut asker, mut answerer) = (Asker::new(line.clone()), Answerer::new(line));
        let server = thread::spawn(move || {
            let is_asked = || answerer.is_asked();
            asked.wait_or(&Patience::ENDLESS, &Immortal, is_asked).expect("asks");
            assert!(asked.arm_word_or(is_asked).is_none());
            assert_eq!(answerer.take(), Some([5; 4]));
            answerer.answer(6);
            back.ring();
            (asked, back)
        });
        // The server may come as far as its sleep: who has given way goes on when others do.
        thread::yield_now();
        asker.ask([5; 4]);
        there.ring();
        let is_answered = || asker.is_answered();
        answered.wait_or(&Patience::ENDLESS, &Immortal, is_answered).expect("answers");
        assert_eq!(asker.take(), Some(6));
        drop(server.join().unwrap());
    });
}
