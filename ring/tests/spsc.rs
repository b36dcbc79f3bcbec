//! One producer and one consumer over real shared memory.

use std::time::Duration;

use heliostat_base::event::Event;
use heliostat_ring::doorbell::Patience;
use heliostat_ring::probe::Immortal;
use heliostat_ring::{
    Refresh, ReserveError, RingError, RingMemory, Side, SpscConsumer, SpscProducer, TakeError,
    WaitError,
};
use std::os::fd::AsRawFd;

fn pair(capacity: u64, refresh: Refresh) -> (SpscProducer, SpscConsumer) {
    let (fd, memory) = RingMemory::create(c"ring-test", capacity).expect("created");
    let other = RingMemory::attach(fd.as_raw_fd(), 0).expect("attached");
    let producer = memory.spsc_producer(refresh).expect("free");
    (producer, other.spsc_consumer(refresh).expect("free"))
}

fn text(consumer: &mut SpscConsumer) -> Result<Vec<u8>, TakeError> {
    let element = consumer.take()?;
    let mut bytes = vec![0; element.len()];
    element.copy_out(0, &mut bytes);
    Ok(bytes)
}

#[test]
fn elements_arrive_in_order_and_whole() {
    let (mut producer, mut consumer) = pair(4096, Refresh::Lazy);
    for round in 0..10_000usize {
        let bytes = vec![round as u8; round % 700];
        producer.push(&bytes).expect("released below");
        assert_eq!(text(&mut consumer), Ok(bytes), "round {round}");
    }
    assert_eq!(text(&mut consumer), Err(TakeError::Empty));
}

#[test]
fn an_uncommitted_element_is_invisible_and_its_space_comes_back() {
    let (mut producer, mut consumer) = pair(4096, Refresh::Lazy);
    assert_eq!(producer.reserve(2000).expect("fits").len(), 2000);
    assert!(consumer.take().is_err());
    producer.push(&[1; 2000]).expect("fits");
    assert_eq!(text(&mut consumer), Ok(vec![1; 2000]));
}

#[test]
fn a_full_ring_says_so_and_goes_on_after_a_release() {
    let (mut producer, mut consumer) = pair(4096, Refresh::Lazy);
    let mut pushed = 0;
    while producer.push(&[7; 56]).is_ok() {
        pushed += 1;
    }
    assert_eq!(pushed, 63, "64 elements of 64 bytes, less the word behind the newest");
    assert_eq!(producer.push(&[7; 56]), Err(ReserveError::Full));
    while consumer.take().is_ok() {}
    assert_eq!(producer.push(&[7; 56]), Ok(()));
}

#[test]
fn an_element_beyond_half_the_ring_is_too_large_for_ever() {
    let (mut producer, _consumer) = pair(4096, Refresh::Lazy);
    let limit = 2048 - 16;
    assert_eq!(producer.push(&vec![0; limit]), Ok(()));
    let answer = producer.push(&vec![0; limit + 1]);
    assert_eq!(answer, Err(ReserveError::TooLarge { wanted: limit + 1, limit }));
}

#[test]
fn a_prefix_can_be_committed() {
    let (mut producer, mut consumer) = pair(4096, Refresh::Lazy);
    let mut slot = producer.reserve(100).expect("fits");
    slot.copy_in(0, b"short");
    slot.commit_prefix(5);
    assert_eq!(text(&mut consumer), Ok(b"short".to_vec()));
}

#[test]
fn each_end_is_claimed_once_and_can_be_resumed() {
    let (_fd, memory) = RingMemory::create(c"ring-test", 4096).expect("created");
    let mut producer = memory.spsc_producer(Refresh::Lazy).expect("free");
    let again = memory.spsc_producer(Refresh::Lazy).err();
    assert_eq!(again, Some(RingError::Claimed(Side::Producer)));
    let mut consumer = memory.spsc_consumer(Refresh::Lazy).expect("free");
    producer.push(b"before").expect("fits");
    drop(producer);
    memory.spsc_producer(Refresh::Lazy).expect("given back").push(b"after").expect("fits");
    assert_eq!(text(&mut consumer), Ok(b"before".to_vec()));
    drop(consumer);
    let mut consumer = memory.spsc_consumer(Refresh::Lazy).expect("given back");
    assert_eq!(text(&mut consumer), Ok(b"after".to_vec()));
}

#[test]
fn two_threads_exchange_everything_with_both_refresh_kinds() {
    for refresh in [Refresh::Lazy, Refresh::Eager] {
        let (mut producer, mut consumer) = pair(4096, refresh);
        let sender = std::thread::spawn(move || {
            for i in 0..100_000u64 {
                let bytes = [i.to_le_bytes(); 40];
                let len = 8 + (i as usize % 300);
                while producer.push(&bytes.as_flattened()[..len]) == Err(ReserveError::Full) {
                    let _ = producer.wait_space(len, &Patience::ENDLESS, &Immortal);
                }
            }
        });
        let mut bytes = [0; 320];
        for i in 0..100_000u64 {
            consumer.wait(&Patience::ENDLESS, &Immortal).expect("the sender lives");
            let len = consumer.pop(&mut bytes).expect("waited for");
            assert_eq!(len, 8 + (i as usize % 300));
            assert_eq!(bytes[..8], i.to_le_bytes());
            assert_eq!(bytes[len - 1], i.to_le_bytes()[(len - 1) % 8]);
        }
        sender.join().expect("no panic");
    }
}

#[test]
fn a_wait_with_a_deadline_ends() {
    let (mut producer, mut consumer) = pair(4096, Refresh::Lazy);
    let patience = Patience::up_to(Duration::from_millis(5));
    assert_eq!(consumer.wait(&patience, &Immortal), Err(WaitError::TimedOut));
    while producer.push(&[0; 500]).is_ok() {}
    assert_eq!(producer.wait_space(500, &patience, &Immortal), Err(WaitError::TimedOut));
}

#[test]
fn a_wait_ends_when_the_probe_says_that_nobody_is_there() {
    let (mut producer, mut consumer) = pair(4096, Refresh::Lazy);
    let gone = || false;
    assert_eq!(consumer.wait(&Patience::ENDLESS, &gone), Err(WaitError::PeerGone));
    producer.push(b"last words").expect("fits");
    assert_eq!(consumer.wait(&Patience::ENDLESS, &gone), Ok(()));
}

#[test]
fn a_consumer_that_sleeps_in_poll_is_rung_once() {
    let (mut producer, mut consumer) = pair(4096, Refresh::Lazy);
    let event = Event::create().expect("a descriptor is free");
    producer.set_consumer_event(event.duplicate().expect("a descriptor is free"));
    producer.push(b"awake").expect("fits");
    assert_eq!(event.drain(), Ok(0), "nobody had said that it sleeps");
    assert!(!consumer.arm(), "there is an element");
    assert_eq!(text(&mut consumer), Ok(b"awake".to_vec()));
    assert!(consumer.arm());
    producer.push(b"one").expect("fits");
    producer.push(b"two").expect("fits");
    assert_eq!(event.wait(Some(10_000)), Ok(true));
    assert_eq!(event.drain(), Ok(1));
    consumer.disarm();
}

#[test]
fn sleeping_in_the_kernel_loses_no_wake_up() {
    let (mut ping, mut ping_end) = pair(4096, Refresh::Lazy);
    let (mut pong, mut pong_end) = pair(4096, Refresh::Lazy);
    let drowsy = Patience { spin_ns: 0, timeout_ns: None };
    let echo = std::thread::spawn(move || {
        for _ in 0..3000 {
            ping_end.wait(&drowsy, &Immortal).expect("lives");
            ping_end.take().expect("waited for").release();
            pong.push(b"pong").expect("empty");
        }
    });
    for _ in 0..3000 {
        ping.push(b"ping").expect("empty");
        pong_end.wait(&drowsy, &Immortal).expect("lives");
        pong_end.take().expect("waited for").release();
    }
    echo.join().expect("no panic");
}

#[test]
fn a_region_that_is_no_ring_is_refused() {
    use heliostat_base::mapping::SharedMapping;
    let (fd, mapping) = SharedMapping::create(c"no-ring", 8192).expect("created");
    assert!(matches!(RingMemory::attach(fd.as_raw_fd(), 0), Err(RingError::Corrupt(_))));
    RingMemory::create_in(fd.as_raw_fd(), 0, 4096).expect("zeroed");
    assert!(RingMemory::attach(fd.as_raw_fd(), 0).is_ok());
    for capacity in [0, 4095, 6000, 8192, 1 << 33] {
        mapping.atomic_u64(0x10).store(capacity, std::sync::atomic::Ordering::Relaxed);
        assert!(RingMemory::attach(fd.as_raw_fd(), 0).is_err(), "{capacity}");
    }
}
