//! Processes that produce into one ring by turns, some of which are killed.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use heliostat_abi::file::delegated::joint::member_at;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_ring::doorbell::Patience;
use heliostat_ring::members::{MemberLife, MembersPage};
use heliostat_ring::probe::Immortal;
use heliostat_ring::turn::{MemberId, Turn, GENERATION_MAX};
use heliostat_ring::{JointProducer, PushError, Refresh, ReserveError, RingMemory, SpscConsumer};

const CAPACITY: u64 = 4096;
const PAGE_AT: usize = RingMemory::bytes(CAPACITY);
const BYTES: usize = PAGE_AT + 4096;
const MEMBERS: u32 = 4;
/// Processes that come one after the other.
const ROUNDS: u32 = 16;
/// Nothing here takes a second; this only turns a hang into a failure.
const WATCHDOG: Duration = Duration::from_secs(60);

struct Member(Child);

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn page(fd: RawFd) -> SharedMapping {
    SharedMapping::map(fd, PAGE_AT, 4096, Access::ReadWrite).expect("mapped")
}

fn start(fd: RawFd) -> Member {
    // The child inherits the number: the descriptor's close-on-exec flag is taken off a copy.
    // SAFETY: dup takes no pointer.
    let inherited = unsafe { libc::dup(fd) };
    let child = Command::new(std::env::current_exe().expect("we run"))
        .args(["--exact", "member_process", "--nocapture"])
        .env("RING_FD", inherited.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("the test binary starts");
    // SAFETY: the copy is ours; the child has its own.
    unsafe { libc::close(inherited) };
    Member(child)
}

/// Two threads, each of which pushes who it is, and how often it has pushed.
#[test]
fn member_process() {
    let Ok(fd) = std::env::var("RING_FD") else { return };
    let fd: RawFd = fd.parse().expect("a number");
    let (producer, member, _life) = take_part(fd);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let producer = producer.clone();
            scope.spawn(move || push_for_ever(&producer, pusher(member, thread)));
        }
    });
}

/// A thread of a member.
fn pusher(member: MemberId, thread: u64) -> u64 {
    (u64::from(member.generation) << 8 | u64::from(member.number)) << 1 | thread
}

fn take_part(fd: RawFd) -> (JointProducer<MembersPage>, MemberId, MemberLife) {
    let page = MembersPage::attach(page(fd)).expect("a page");
    let claimed = page.claim(0..page.count()).expect("kept");
    let (member, life) = claimed.expect("a number is free");
    let memory = RingMemory::attach(fd, 0).expect("a ring");
    let producer = JointProducer::new(memory, Turn::new(page, member)).expect("free");
    (producer, member, life)
}

fn push_for_ever(producer: &JointProducer<MembersPage>, pusher: u64) {
    for i in 0u64.. {
        let record = [pusher.to_le_bytes(), i.to_le_bytes(), i.to_le_bytes()];
        let len = 16 + i as usize % 9;
        while producer.push(&record.as_flattened()[..len]).is_err() {
            std::thread::sleep(Duration::from_micros(50));
        }
        producer.ring();
    }
}

/// Takes elements until both threads of a member have pushed so many; sees that of each pusher none is
/// missing and none comes twice.
fn take(consumer: &mut SpscConsumer, seen: &mut HashMap<u64, u64>, member: MemberId, wanted: u64) {
    let pushed = |seen: &HashMap<u64, u64>, thread| seen.get(&pusher(member, thread)).copied();
    while pushed(seen, 0).min(pushed(seen, 1)) < Some(wanted) {
        let mut bytes = [0; 24];
        let Ok(len) = consumer.pop(&mut bytes) else {
            consumer.wait(&Patience::up_to(WATCHDOG), &Immortal).expect("others go on");
            continue;
        };
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let (pusher, i) = (word(0), word(8));
        let count = seen.entry(pusher).or_default();
        assert_eq!((len, i), (16 + i as usize % 9, *count), "of pusher {pusher}");
        *count += 1;
    }
}

#[test]
fn members_go_on_after_others_were_killed_at_any_moment_and_nothing_is_lost() {
    let fd = SharedMapping::create_fd(c"ring-joint", BYTES).expect("created");
    let memory = RingMemory::create_in(fd.as_raw_fd(), 0, CAPACITY).expect("created");
    drop(MembersPage::create(page(fd.as_raw_fd()), MEMBERS, 0));
    let mut consumer = memory.spsc_consumer(Refresh::Lazy).expect("free");
    let mut seen = HashMap::new();
    let mut members = Vec::new();
    // Each takes the next number, and then the first of those that are dead: the one before lives.
    let nth = |round: u32| match round {
        0..MEMBERS => MemberId { number: round, generation: 1 },
        _ => MemberId { number: round % 2, generation: round / 2 },
    };
    for round in 0..ROUNDS {
        members.push(start(fd.as_raw_fd()));
        take(&mut consumer, &mut seen, nth(round), 300 + u64::from(round) * 37);
        drop(members.drain(..members.len() - 1));
    }
    let last = nth(ROUNDS - 1);
    let before = seen[&pusher(last, 0)].max(seen[&pusher(last, 1)]);
    take(&mut consumer, &mut seen, last, before + 500);
    assert_eq!(seen.len(), 2 * ROUNDS as usize);
}

#[test]
fn one_that_lives_and_keeps_the_turn_is_busy_and_words_of_nobody_are_taken_over() {
    let fd = SharedMapping::create_fd(c"ring-joint", BYTES).expect("created");
    let _memory = RingMemory::create_in(fd.as_raw_fd(), 0, CAPACITY).expect("created");
    drop(MembersPage::create(page(fd.as_raw_fd()), 2, 0));
    let (first, _, _life) = take_part(fd.as_raw_fd());
    let (second, member, life) = take_part(fd.as_raw_fd());
    let turn = Turn::new(MembersPage::attach(page(fd.as_raw_fd())).expect("a page"), member);
    turn.take().expect("free");
    assert_eq!(first.push(b"record"), Err(PushError::Busy));
    drop(life);
    assert_eq!(first.push(b"record"), Ok(()), "its life is over");
    let words = page(fd.as_raw_fd());
    for garbage in [3, 17, 1 << 31 | 9, 2 << 8 | 2, u32::MAX] {
        words.atomic_u32(0).store(garbage, Ordering::Relaxed);
        assert_eq!(first.push(b"record"), Ok(()), "{garbage:#x}");
    }
    assert!(matches!(second.push(&[0; 3000]), Err(PushError::Ring(ReserveError::TooLarge { .. }))));
    let page = MembersPage::attach(words).expect("a page");
    let claim = || page.claim(0..2).expect("kept").map(|(member, life)| (member.number, life));
    let (number, life) = claim().expect("the second's life is over");
    assert_eq!(number, 1);
    assert!(claim().is_none(), "both are taken");
    drop(life);
    for garbage in [u64::MAX, 7, u64::from(GENERATION_MAX) << 32] {
        page.mapping().atomic_u64(member_at(1)).store(garbage, Ordering::Relaxed);
        assert!(claim().is_none(), "{garbage:#x} is nobody to come after");
    }
}

#[test]
fn a_turn_that_somebody_writes_over_all_the_time_holds_nobody_up_for_ever() {
    let fd = SharedMapping::create_fd(c"ring-joint", BYTES).expect("created");
    let _memory = RingMemory::create_in(fd.as_raw_fd(), 0, CAPACITY).expect("created");
    drop(MembersPage::create(page(fd.as_raw_fd()), 1, 0));
    let (producer, ..) = take_part(fd.as_raw_fd());
    let (words, is_over) = (page(fd.as_raw_fd()), AtomicBool::new(false));
    let (told, ends) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Nobody's that can be anybody's, each time another.
            for generation in (1..=GENERATION_MAX).cycle() {
                words.atomic_u32(0).store(generation << 8 | 17, Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        scope.spawn(move || {
            for _ in 0..5 {
                // Taken between two of them, or given up.
                let pushed = producer.push(&[0; 8]);
                assert!(matches!(pushed, Ok(()) | Err(PushError::Busy)), "{pushed:?}");
            }
            told.send(()).expect("awaited");
        });
        let ended = ends.recv_timeout(Duration::from_secs(20));
        // Where it has not, the turn rests from here on, and the threads end.
        is_over.store(true, Ordering::Relaxed);
        ended.expect("each push ends by itself");
    });
}
