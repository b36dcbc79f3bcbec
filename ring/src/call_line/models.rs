//! Loom: the orders C1 and C2 of a call, explored over all interleavings.
//!
//! The bytes that an answer brings are watched, so that one that no release and acquire orders is
//! reported as a data race: too early for the asker, or too late for the next answer.

use std::sync::Arc as StdArc;

use loom::thread;

use super::*;
use crate::sync::Watched;

/// Ordinary memory for a line: the turn, and its seven words.
#[derive(Clone, Default)]
pub(crate) struct Cells(StdArc<[AtomicU64; 8]>);

impl Line for Cells {
    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.0[offset / 8]
    }
}

fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}

#[test]
fn loom_each_of_three_calls_is_seen_whole_and_has_its_own_answer_and_bytes() {
    model(4, || {
        let (line, window) = (Cells::default(), StdArc::new(Watched::new(0)));
        let (mut answerer, bytes) = (Answerer::new(line.clone()), window.clone());
        let server = thread::spawn(move || {
            for call in 1..=3 {
                let asked = loop {
                    match answerer.take() {
                        Some(asked) => break asked,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(asked, [call; 4]);
                bytes.set(call);
                answerer.answer(-(call as i64));
                assert!(!answerer.is_asked() || call < 3);
            }
        });
        let mut asker = Asker::new(line);
        for call in 1..=3 {
            asker.ask([call; 4]);
            let answer = loop {
                match asker.take() {
                    Some(answer) => break answer,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(answer, -(call as i64));
            assert_eq!(window.get(), call);
            assert_eq!(asker.take(), None, "an answer is taken once");
        }
        server.join().unwrap();
    });
}

#[test]
fn loom_a_turn_that_is_not_the_next_one_is_neither_call_nor_answer() {
    model(4, || {
        let line = Cells::default();
        let (answerer, hostile) = (Answerer::new(line.clone()), line.clone());
        let other = thread::spawn(move || {
            for turn in [3, u64::MAX, 0] {
                hostile.word(CALL_TURN_AT).store(turn, Release);
            }
        });
        assert_eq!(answerer.take(), None);
        let mut asker = Asker::new(line);
        assert_eq!(asker.take(), None);
        other.join().unwrap();
    });
}

#[test]
fn loom_all_words_of_a_call_are_seen_whole() {
    model(3, || {
        let line = Cells::default();
        let mut answerer = Answerer::new(line.clone());
        let server = thread::spawn(move || {
            for call in 1..=2 {
                let asked = loop {
                    match answerer.take() {
                        Some(asked) => break asked,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!((asked, answerer.take_more()), ([call; 4], [call + 10; 3]));
                answerer.answer(call as i64);
            }
        });
        let mut asker = Asker::new(line);
        for call in 1..=2 {
            asker.ask_more([call; 4], [call + 10; 3]);
            while !asker.is_answered() {
                thread::yield_now();
            }
            assert_eq!(asker.take(), Some(call as i64));
        }
        server.join().unwrap();
    });
}
