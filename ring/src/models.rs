//! Loom: the orderings of the ring, explored over all interleavings of small programs.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p heliostat-ring --lib --release models`. The
//! protocol runs on [`WordMemory`], which has loom look at every payload access.

mod calling;
mod polling;
mod regions;

use loom::thread;

use crate::combine::{Combiner, Serve};
use crate::doorbell::Patience;
use crate::error::{ReserveError, Side, TakeError};
use crate::memory::words::WordMemory;
use crate::memory::Memory;
use crate::mpmc::{Consumer, Producer};
use crate::probe::Immortal;
use crate::spsc::{Refresh, SpscConsumer, SpscProducer};
use crate::sync::Ordering;

fn spsc(capacity: u64) -> (SpscProducer<WordMemory>, SpscConsumer<WordMemory>) {
    let memory = WordMemory::new(capacity);
    let producer = SpscProducer::new(memory.clone(), Refresh::Lazy).expect("free");
    (producer, SpscConsumer::new(memory, Refresh::Lazy).expect("free"))
}

#[test]
fn spsc_publishes_consumes_and_reclaims_in_order() {
    loom::model(|| {
        // 64 bytes hold two elements of 24 and the word behind: the third waits for a reclaim.
        let (mut producer, mut consumer) = spsc(64);
        let sender = thread::spawn(move || {
            for value in 1..=3u8 {
                while producer.push(&[value; 16]) == Err(ReserveError::Full) {
                    thread::yield_now();
                }
            }
        });
        for value in 1..=3u8 {
            let mut byte = [0];
            while consumer.pop(&mut byte) == Err(TakeError::Empty) {
                thread::yield_now();
            }
            assert_eq!(byte[0], value);
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_sleeping_consumer_is_always_woken() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc(64);
        let sender = thread::spawn(move || producer.push(&[7]).expect("fits"));
        let mut byte = [0];
        while consumer.pop(&mut byte).is_err() {
            // A lost wake-up is a deadlock here, which loom reports.
            consumer.wait(&Patience::ENDLESS, &Immortal).expect("lives");
        }
        assert_eq!(byte[0], 7);
        sender.join().unwrap();
    });
}

#[test]
fn a_sleeping_producer_is_always_woken() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc(64);
        producer.push(&[1; 16]).expect("fits");
        producer.push(&[2; 16]).expect("fits");
        let receiver = thread::spawn(move || {
            let mut byte = [0];
            consumer.pop(&mut byte).expect("committed before");
            byte[0]
        });
        producer.wait_space(16, &Patience::ENDLESS, &Immortal).expect("lives");
        producer.push(&[3; 16]).expect("waited for");
        assert_eq!(receiver.join().unwrap(), 1);
    });
}

struct Counter(u64, u64);

impl Serve for Counter {
    type Request = u64;
    fn serve(&mut self, request: &mut u64) {
        self.0 += 1;
        *request = self.0;
    }
    fn finish(&mut self) {
        self.1 += 1;
    }
}

#[test]
fn combining_serves_every_request_once_and_wakes_every_waiter() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let line = loom::sync::Arc::new(Combiner::new(Counter(0, 0)));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let line = line.clone();
                thread::spawn(move || line.run(0))
            })
            .collect();
        let mut answers = vec![line.run(0)];
        answers.extend(others.into_iter().map(|other| other.join().unwrap()));
        answers.sort_unstable();
        assert_eq!(answers, [1, 2, 3]);
    });
}

#[test]
fn two_producing_threads_and_one_consumer_lose_nothing() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let memory = WordMemory::new(64);
        let producer = Producer::new(memory.clone()).expect("free");
        let mut consumer = SpscConsumer::new(memory, Refresh::Lazy).expect("free");
        let other = producer.clone();
        let sender = thread::spawn(move || other.push(&[1]).expect("fits"));
        producer.push(&[2]).expect("fits");
        let mut sum = 0;
        for _ in 0..2 {
            let mut byte = [0];
            while consumer.pop(&mut byte).is_err() {
                thread::yield_now();
            }
            sum += byte[0];
        }
        assert_eq!(sum, 3);
        sender.join().unwrap();
    });
}

#[test]
fn releases_in_any_order_by_two_threads_are_reclaimed_in_the_end() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let memory = WordMemory::new(64);
        let mut producer = SpscProducer::new(memory.clone(), Refresh::Lazy).expect("free");
        producer.push(&[1]).expect("fits");
        producer.push(&[2]).expect("fits");
        producer.push(&[3]).expect("fits");
        assert_eq!(producer.push(&[4]), Err(ReserveError::Full));
        let consumer = Consumer::new(memory).expect("free");
        let other = consumer.clone();
        let taker = thread::spawn(move || other.take().expect("two are there").release());
        consumer.take().expect("two are there").release();
        taker.join().unwrap();
        // Whichever was released last has published both.
        assert_eq!(producer.push(&[4]), Ok(()));
    });
}

#[test]
fn an_end_reads_bell_words_only_through_atomics() {
    loom::model(|| {
        let memory = WordMemory::new(64);
        memory.bell(Side::Consumer).store(9, Ordering::Relaxed);
        let mut producer = SpscProducer::new(memory.clone(), Refresh::Lazy).expect("free");
        // A foreign value that no sleeper writes is cleared and wakes nobody.
        producer.push(&[1]).expect("fits");
        assert_eq!(memory.bell(Side::Consumer).load(Ordering::Relaxed), 0);
    });
}
