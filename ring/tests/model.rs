//! The ring against a queue: any sequence of operations gives the same answers.

use std::collections::VecDeque;

use heliostat_ring::{Refresh, ReserveError, RingMemory, TakeError};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Prefix(usize, usize),
    Abandon(usize),
    Pop,
    Resume,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..1500).prop_map(Step::Push),
        1 => (0usize..1500, 0usize..1500).prop_map(|(a, b)| Step::Prefix(a, b)),
        1 => (0usize..2100).prop_map(Step::Abandon),
        4 => Just(Step::Pop),
        1 => Just(Step::Resume),
    ]
}

/// Bytes in use as the producer may see them at most: released ones may be unpublished.
fn span(len: usize) -> usize {
    (len + 15) / 8 * 8
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed * 31 + i) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_ring_answers_as_a_queue_does(steps in prop::collection::vec(step(), 1..200)) {
        let (_fd, memory) = RingMemory::create(c"ring-model", 4096).expect("created");
        let mut producer = memory.spsc_producer(Refresh::Lazy).expect("free");
        let mut consumer = memory.spsc_consumer(Refresh::Lazy).expect("free");
        let mut queue: VecDeque<Vec<u8>> = VecDeque::new();
        for (seed, step) in steps.into_iter().enumerate() {
            let used: usize = queue.iter().map(|e| span(e.len())).sum();
            match step {
                Step::Push(len) => {
                    let sent = bytes(seed, len);
                    match producer.push(&sent) {
                        Ok(()) => {
                            prop_assert!(used + span(len) + 8 <= 4096);
                            queue.push_back(sent);
                        }
                        // Up to an eighth may be released and not yet published.
                        Err(ReserveError::Full) => {
                            prop_assert!(used + span(len) + 8 + 512 > 4096);
                        }
                        Err(error) => prop_assert!(false, "{error}"),
                    }
                }
                Step::Prefix(len, kept) => {
                    let sent = bytes(seed, len);
                    if let Ok(mut slot) = producer.reserve(len) {
                        slot.copy_in(0, &sent);
                        slot.commit_prefix(kept);
                        queue.push_back(sent[..kept.min(len)].to_vec());
                    }
                }
                Step::Abandon(len) => {
                    let answer = producer.reserve(len).map(|slot| slot.len());
                    let fits = len <= 4096 / 2 - 16;
                    prop_assert_eq!(matches!(answer, Err(ReserveError::TooLarge { .. })), !fits);
                }
                Step::Pop => {
                    let mut into = vec![0; 2100];
                    let answer = consumer.pop(&mut into).map(|len| into[..len].to_vec());
                    prop_assert_eq!(answer, queue.pop_front().ok_or(TakeError::Empty));
                }
                Step::Resume => {
                    drop(producer);
                    producer = memory.spsc_producer(Refresh::Lazy).expect("given back");
                    drop(consumer);
                    consumer = memory.spsc_consumer(Refresh::Lazy).expect("given back");
                }
            }
        }
    }

    #[test]
    fn many_producers_of_one_thread_keep_the_order(lens in prop::collection::vec(0usize..400, 1..9)) {
        let (_fd, memory) = RingMemory::create(c"ring-model", 8192).expect("created");
        let (producer, consumer) =
            (memory.producer().expect("free"), memory.consumer().expect("free"));
        for _ in 0..20 {
            let mut slots: Vec<_> =
                lens.iter().map(|&len| producer.reserve(len).expect("fits")).collect();
            // Committed last first: taken first first all the same.
            while let Some(mut slot) = slots.pop() {
                let sent = bytes(slots.len(), slot.len());
                slot.copy_in(0, &sent);
                slot.commit();
            }
            for (seed, &len) in lens.iter().enumerate() {
                let element = consumer.take().expect("committed");
                let mut into = vec![0; element.len()];
                element.copy_out(0, &mut into);
                prop_assert_eq!(into, bytes(seed, len));
            }
        }
    }
}
