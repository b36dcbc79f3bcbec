//! Loom: the orders R1 to R4 of requests, explored over all interleavings.
//!
//! What a call writes is watched, so that bytes that no release and acquire orders are reported as a data
//! race; a lost wake-up is a deadlock, which loom reports.

use std::sync::Arc as StdArc;

use loom::thread;

use super::*;
use crate::sync::Watched;

/// The words that one line and one queue use, each with an atomic of its own.
#[derive(Clone)]
struct Cells(StdArc<Atoms>);

#[derive(Default)]
struct Atoms {
    halves: [AtomicU32; 6],
    words: [AtomicU64; 9],
}

impl RequestMemory for Cells {
    fn half(&self, number: usize) -> &AtomicU32 {
        let line = LINES_AT * 2;
        match number {
            0..=2 => &self.0.halves[number],
            number if number == line || number == line + 1 => &self.0.halves[3 + number - line],
            number if number == line + 16 => &self.0.halves[5],
            _ => panic!("a half of no use here"),
        }
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        match number {
            8 => &self.0.words[0],
            number => &self.0.words[number - LINES_AT],
        }
    }
}

fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(f);
}

fn requests() -> (Requests<Cells>, Requests<Cells>) {
    let cells = Cells(StdArc::default());
    (Requests::new(cells.clone()), Requests::new(cells))
}

fn asked(number: u32) -> Asked {
    Asked { number, args: [u64::from(number); 6] }
}

#[test]
fn loom_a_call_is_made_by_its_thread_or_by_the_executor_and_its_bytes_are_seen() {
    model(|| {
        let (asker, executor) = requests();
        let made = StdArc::new(Watched::new(0));
        let bytes = made.clone();
        let other = thread::spawn(move || {
            if let Some(call) = executor.take(0) {
                assert_eq!(call, asked(7));
                bytes.set(bytes.get() + 1);
                executor.answer(0, Answer::Result(7));
            }
        });
        asker.ask(0, &asked(7));
        if asker.withdraw(0) {
            made.set(made.get() + 1);
        } else {
            let answer = loop {
                match asker.look(0) {
                    Some(answer) => break answer,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(answer, Answer::Result(7));
        }
        assert_eq!(made.get(), 1);
        other.join().unwrap();
        assert_eq!(made.get(), 1);
    });
}

#[test]
fn loom_neither_the_executor_nor_who_waits_for_its_answer_sleeps_past_it() {
    model(|| {
        let (asker, executor) = requests();
        let other = thread::spawn(move || loop {
            let mut is_done = false;
            executor.sweep(0, 1, |line| {
                let call = executor.take(line).expect("not withdrawn");
                executor.answer(line, Answer::Result(i64::from(call.number)));
                is_done = true;
            });
            if is_done {
                break;
            }
            executor.sleep(0, 1, None, || false);
        });
        // The executor may come as far as its sleep.
        thread::yield_now();
        asker.ask(0, &asked(3));
        asker.submit(0, 0);
        let answer = loop {
            asker.sleep_for_answer(0, None);
            match asker.look(0) {
                Some(answer) => break answer,
                None => thread::yield_now(),
            }
        };
        assert_eq!(answer, Answer::Result(3));
        other.join().unwrap();
    });
}

#[test]
fn loom_an_order_that_is_followed_by_a_wake_is_not_slept_past() {
    model(|| {
        let (asker, executor) = requests();
        let other = thread::spawn(move || {
            let is_told = || executor.order(0).load(Relaxed) != 0;
            while !is_told() {
                executor.sleep(0, 1, None, is_told);
            }
        });
        thread::yield_now();
        asker.order(0).store(1, Relaxed);
        asker.wake(0);
        other.join().unwrap();
    });
}

#[test]
fn loom_a_line_passes_from_one_thread_to_the_next_with_all_that_was_in_it() {
    model(|| {
        let (first, second) = requests();
        let owned = StdArc::new(Watched::new(0));
        assert!(first.pass(0, 0, 1));
        owned.set(1);
        let its = owned.clone();
        let other = thread::spawn(move || {
            if second.pass(0, 0, 2) {
                its.set(its.get() + 1);
            }
        });
        first.pass(0, 1, 0);
        other.join().unwrap();
        assert!(matches!(owned.get(), 1 | 2));
    });
}
