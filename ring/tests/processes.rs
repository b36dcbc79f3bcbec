//! Two processes: one is killed in the middle of an operation, or writes what it must not.
//!
//! The test binary starts itself again as the peer: `peer_process` is a test that does nothing
//! unless the environment names the ring's descriptor and the part to play.

use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::process::PidFd;
use heliostat_ring::doorbell::Patience;
use heliostat_ring::probe::Immortal;
use heliostat_ring::{
    Refresh, ReserveError, RingMemory, Side, SpscConsumer, SpscProducer, TakeError, WaitError,
};

const CAPACITY: u64 = 4096;

/// Nothing here takes a second; this only turns a hang into a failure.
const WATCHDOG: Duration = Duration::from_secs(30);

/// A peer that does not outlive its test, however that ends.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill and still something to reap.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(part: &str, fd: RawFd) -> (Peer, PidFd) {
    // The child inherits the number: the descriptor's close-on-exec flag is taken off a copy.
    // SAFETY: dup takes no pointer.
    let inherited = unsafe { libc::dup(fd) };
    let child = Command::new(std::env::current_exe().expect("we run"))
        .args(["--exact", "peer_process", "--nocapture"])
        .env("RING_FD", inherited.to_string())
        .env("RING_PART", part)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test binary starts");
    // SAFETY: the copy is ours; the child has its own.
    unsafe { libc::close(inherited) };
    let pidfd = PidFd::open(child.id() as i32).expect("just started");
    (Peer(child), pidfd)
}

#[test]
fn peer_process() {
    let (Ok(fd), Ok(part)) = (std::env::var("RING_FD"), std::env::var("RING_PART")) else {
        return;
    };
    let fd: RawFd = fd.parse().expect("a number");
    match part.as_str() {
        "produce" => produce_for_ever(fd),
        "consume" => consume_for_ever(fd),
        "scribble" => scribble_for_ever(fd),
        other => panic!("no such part: {other}"),
    }
}

fn produce_for_ever(fd: RawFd) {
    let memory = RingMemory::attach(fd, 0).expect("a ring");
    let mut producer = memory.spsc_producer(Refresh::Lazy).expect("free");
    for i in 0u64.. {
        let bytes = [i.to_le_bytes(); 30];
        while producer.push(&bytes.as_flattened()[..8 + i as usize % 200]).is_err() {
            let _ = producer.wait_space(208, &Patience::ENDLESS, &Immortal);
        }
    }
}

fn consume_for_ever(fd: RawFd) {
    let memory = RingMemory::attach(fd, 0).expect("a ring");
    let mut consumer = memory.spsc_consumer(Refresh::Lazy).expect("free");
    loop {
        let _ = consumer.wait(&Patience::ENDLESS, &Immortal);
        let _ = consumer.take().map(|element| element.len());
    }
}

/// Writes pseudo-random words all over the control page and the data.
fn scribble_for_ever(fd: RawFd) {
    let len = RingMemory::bytes(CAPACITY);
    let mapping = SharedMapping::from_fd(fd, len, Access::ReadWrite).expect("mapped");
    let mut state = 88172645463325252u64;
    loop {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let offset = (state >> 32) as usize % (len / 8) * 8;
        let control = [0x80, 0x100, 0x180, 0x200, 0x1000][state as usize % 5];
        let at = if state % 3 == 0 { control } else { offset };
        mapping.atomic_u64(at).store(state, std::sync::atomic::Ordering::Relaxed);
    }
}

fn check_next(consumer: &mut SpscConsumer, i: u64) -> Result<(), TakeError> {
    let mut bytes = [0; 208];
    let len = consumer.pop(&mut bytes)?;
    assert_eq!((len, &bytes[..8]), (8 + i as usize % 200, &i.to_le_bytes()[..]));
    Ok(())
}

#[test]
fn a_killed_producer_leaves_whole_elements_and_is_noticed() {
    for round in 0..10u64 {
        let (fd, memory) = RingMemory::create(c"ring-kill", CAPACITY).expect("created");
        let mut consumer = memory.spsc_consumer(Refresh::Lazy).expect("free");
        let (child, pidfd) = start("produce", fd.as_raw_fd());
        let patience = Patience::up_to(WATCHDOG);
        let mut i = 0;
        while i < 1000 + round * 37 {
            consumer.wait(&patience, &pidfd).expect("the producer lives");
            check_next(&mut consumer, i).expect("waited for");
            i += 1;
        }
        drop(child);
        let killed = Instant::now();
        let end = loop {
            match consumer.wait(&patience, &pidfd) {
                Ok(()) => check_next(&mut consumer, i).expect("whole elements only"),
                Err(error) => break error,
            }
            i += 1;
        };
        assert_eq!(end, WaitError::PeerGone);
        assert!(killed.elapsed() < WATCHDOG);
    }
}

#[test]
fn a_killed_consumer_is_noticed_by_a_producer_that_waits_for_space() {
    for _ in 0..10 {
        let (fd, memory) = RingMemory::create(c"ring-kill", CAPACITY).expect("created");
        let mut producer = memory.spsc_producer(Refresh::Lazy).expect("free");
        let (child, pidfd) = start("consume", fd.as_raw_fd());
        let patience = Patience::up_to(WATCHDOG);
        for _ in 0..1000 {
            push(&mut producer, &patience, &pidfd).expect("the consumer lives");
        }
        drop(child);
        let end = loop {
            if let Err(error) = push(&mut producer, &patience, &pidfd) {
                break error;
            }
        };
        assert_eq!(end, WaitError::PeerGone);
    }
}

fn push(producer: &mut SpscProducer, patience: &Patience, pidfd: &PidFd) -> Result<(), WaitError> {
    while producer.push(&[7; 200]).is_err() {
        producer.wait_space(200, patience, pidfd)?;
    }
    Ok(())
}

#[test]
fn a_scribbling_peer_meets_ordinary_answers_only() {
    let (fd, memory) = RingMemory::create(c"ring-scribble", CAPACITY).expect("created");
    // Claimed before the first scribble: a claim among random words is refused every time.
    let mut producer = memory.spsc_producer(Refresh::Eager).expect("free");
    let (child, _pidfd) = start("scribble", fd.as_raw_fd());
    let mut corrupt = [0u32; 2];
    let deadline = Instant::now() + WATCHDOG;
    for round in 0u32.. {
        if corrupt.iter().all(|&n| n > 100) && round > 20_000 {
            break;
        }
        assert!(Instant::now() < deadline, "corruption seen: {corrupt:?}");
        for len in [0, 100, 2000] {
            if let Err(ReserveError::Corrupt(found)) = producer.push(&vec![1; len]) {
                assert_eq!(found.side, Side::Consumer);
                corrupt[0] += 1;
            }
        }
        // A fresh end every time: one that has met corruption would only say so again.
        let mut consumer = memory.spsc_consumer(Refresh::Lazy).expect("free");
        for _ in 0..3 {
            if let Err(TakeError::Corrupt(found)) = consumer.pop(&mut [0; 64]) {
                assert_eq!(found.side, Side::Producer);
                corrupt[1] += 1;
            }
        }
    }
    let many = memory.consumer().expect("free");
    for _ in 0..10_000 {
        let _ = many.pop(&mut [0; 64]);
    }
    drop(child);
}
