//! Many threads at each end of a ring.

use std::sync::atomic::{AtomicU64, Ordering};

use heliostat_ring::doorbell::Patience;
use heliostat_ring::parking::Parking;
use heliostat_ring::probe::Immortal;
use heliostat_ring::{Consumer, Producer, ReserveError, RingMemory, TakeError};

fn pair(capacity: u64) -> (Producer, Consumer) {
    let (_fd, memory) = RingMemory::create(c"ring-test", capacity).expect("created");
    (memory.producer().expect("free"), memory.consumer().expect("free"))
}

#[test]
fn elements_are_taken_in_the_order_of_their_reservations() {
    let (producer, consumer) = pair(4096);
    let mut first = producer.reserve(5).expect("fits");
    let mut second = producer.reserve(6).expect("fits");
    second.copy_in(0, b"second");
    second.commit();
    assert!(matches!(consumer.take(), Err(TakeError::Empty)), "the first is not committed");
    first.copy_in(0, b"first");
    first.commit();
    assert_eq!(consumer.take().expect("committed").len(), 5);
    assert_eq!(consumer.take().expect("committed").len(), 6);
}

#[test]
fn a_reservation_that_is_given_up_is_passed_over() {
    let (producer, consumer) = pair(4096);
    for round in 0..1000 {
        drop(producer.reserve(100 + round % 50).expect("fits"));
        producer.push(b"kept").expect("fits");
        assert_eq!(consumer.take().expect("committed").len(), 4);
    }
}

#[test]
fn elements_released_in_any_order_are_reclaimed() {
    let (producer, consumer) = pair(4096);
    for round in 0..300usize {
        for _ in 0..5 {
            producer.push(&[0; 700]).unwrap_or_else(|e| panic!("round {round}: {e}"));
        }
        let mut held: Vec<_> = (0..5).map(|_| consumer.take().expect("committed")).collect();
        held.rotate_left(round % 5);
        drop(held);
    }
}

#[test]
fn a_late_release_of_the_oldest_reclaims_all_that_waited_for_it() {
    let (producer, consumer) = pair(4096);
    producer.push(&[0; 8]).expect("fits");
    let oldest = consumer.take().expect("committed");
    for _ in 0..4 {
        producer.push(&[0; 1000]).expect("fits");
        consumer.take().expect("committed").release();
    }
    assert_eq!(producer.push(&[0; 1000]), Err(ReserveError::Full));
    oldest.release();
    assert_eq!(producer.push(&[0; 2000]), Ok(()));
}

#[test]
fn more_holds_than_there_are_marks_is_an_ordinary_answer() {
    let (producer, consumer) = pair(1 << 16);
    let limit = heliostat_ring::mpmc::HOLDS_MAX;
    for _ in 0..=limit {
        producer.push(b"x").expect("fits");
    }
    let held: Vec<_> = (0..limit).map(|_| consumer.take().expect("a mark is free")).collect();
    assert!(matches!(consumer.take(), Err(TakeError::Held { limit: found }) if found == limit));
    drop(held);
    assert!(consumer.take().is_ok());
}

#[test]
fn every_element_of_many_threads_arrives_exactly_once() {
    const THREADS: u64 = 8;
    const EACH: u64 = 20_000;
    let (producer, consumer) = pair(8192);
    let (count, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (producer, consumer) = (producer.clone(), consumer.clone());
            let (count, sum) = (&count, &sum);
            scope.spawn(move || {
                for i in 0..EACH {
                    let value = thread * EACH + i;
                    let bytes = [value.to_le_bytes(); 12];
                    let len = 8 + value as usize % 80;
                    while producer.push(&bytes.as_flattened()[..len]).is_err() {
                        let patience = Patience::ENDLESS;
                        producer.wait_space(len, &patience, &Immortal).expect("lives");
                    }
                }
            });
            scope.spawn(move || loop {
                let mut bytes = [0; 96];
                match consumer.pop(&mut bytes) {
                    Ok(len) => {
                        let mut value = [0; 8];
                        value.copy_from_slice(&bytes[..8]);
                        let value = u64::from_le_bytes(value);
                        assert_eq!(len, 8 + value as usize % 80);
                        sum.fetch_add(value, Ordering::Relaxed);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(TakeError::Empty) if count.load(Ordering::Relaxed) == THREADS * EACH => {
                        break;
                    }
                    Err(TakeError::Empty) => {
                        let patience = Patience::up_to(std::time::Duration::from_millis(5));
                        let _ = consumer.wait(&patience, &Immortal);
                    }
                    Err(error) => panic!("{error}"),
                }
            });
        }
    });
    let all = THREADS * EACH;
    assert_eq!(sum.into_inner(), all * (all - 1) / 2);
}

#[test]
fn parked_elements_are_moved_out_and_still_read() {
    let (producer, consumer) = pair(4096);
    let parking = Parking::new(consumer.clone());
    for i in 0..4u8 {
        producer.push(&[i; 900]).expect("fits");
    }
    let parked: Vec<_> =
        (0..4).map(|_| parking.park(consumer.take().expect("committed"))).collect();
    assert_eq!(producer.push(&[9; 900]), Err(ReserveError::Full));
    assert_eq!(parking.reap(1000), 1800, "whole elements, oldest first");
    assert!(parked[1].is_moved_out() && !parked[2].is_moved_out());
    assert_eq!(producer.push(&[9; 900]), Ok(()));
    for (i, parked) in parked.iter().enumerate() {
        let mut bytes = [0; 10];
        parked.copy_out(890, &mut bytes);
        assert_eq!((bytes, parked.len()), ([i as u8; 10], 900));
    }
    drop(parked);
    assert_eq!(consumer.take().map(|e| e.len()), Ok(900));
    assert_eq!(parking.reap(usize::MAX), 0);
    producer.push(&[9; 2000]).expect("all is released");
}
