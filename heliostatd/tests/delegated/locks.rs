//! Delegated locks: the kernel's own, whose waits hold nobody and end with their session.

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::*;
use heliostat_abi::name::ObjectId;
use rustix::fs::{flock, FlockOperation};

const AGAIN: i64 = -(libc::EAGAIN as i64);

fn lock(object: ObjectId, argument: u64, tag: u64) -> Operation {
    Operation { kind: OpKind::Lock, object, argument, ..blank(tag) }
}

fn open(session: &mut Delegate, path: &Path) -> ObjectId {
    session.open(path.to_str().unwrap(), READ | WRITE).unwrap()
}

#[test]
fn a_lock_that_is_taken_is_refused_or_waited_for_until_it_is_given_back() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 100);
    let (mut one, mut other) = (Delegate::new(&daemon), Delegate::new(&daemon));
    let (first, second) = (open(&mut one, &path), open(&mut other, &path));
    assert_eq!(
        (one.on(OpKind::Lock, first, SHARED), other.on(OpKind::Lock, second, SHARED)),
        (0, 0)
    );
    assert_eq!(other.on(OpKind::Lock, second, UNLOCK), 0);
    assert_eq!(one.on(OpKind::Lock, first, ALONE), 0);
    assert_eq!(other.on(OpKind::Lock, second, SHARED | NOW), AGAIN);
    assert_eq!(other.on(OpKind::Lock, second, ALONE | NOW), AGAIN);
    other.submit(&lock(second, ALONE, 77));
    // What it waits for holds up nothing else of its session.
    assert_eq!(other.read(second, 0, 3).2, [5; 3]);
    assert_eq!(one.on(OpKind::Lock, first, UNLOCK), 0);
    assert_eq!(other.next(), Completion { tag: 77, ..Completion::default() });
    assert_eq!(one.on(OpKind::Lock, first, SHARED | NOW), AGAIN);
}

#[test]
fn two_files_of_one_session_lock_each_other_out_as_two_opens_do() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 100);
    let mut session = Delegate::new(&daemon);
    let (first, second) = (open(&mut session, &path), open(&mut session, &path));
    assert_eq!(session.on(OpKind::Lock, first, ALONE), 0);
    assert_eq!(session.on(OpKind::Lock, second, ALONE | NOW), AGAIN);
    session.submit(&lock(second, SHARED, 5));
    assert_eq!(session.on(OpKind::Close, first, 0), 0, "a close gives it back");
    assert_eq!(session.next().tag, 5);
}

#[test]
fn programs_that_lock_by_themselves_are_heeded_and_heed() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 100);
    let mut session = Delegate::new(&daemon);
    let file = open(&mut session, &path);
    let outside = OpenOptions::new().write(true).open(&path).unwrap();
    flock(&outside, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(session.on(OpKind::Lock, file, ALONE | NOW), AGAIN);
    session.submit(&lock(file, ALONE, 6));
    // By its own clock: nobody tells it.
    flock(&outside, FlockOperation::Unlock).unwrap();
    assert_eq!(session.next(), Completion { tag: 6, ..Completion::default() });
    let refused = flock(&outside, FlockOperation::NonBlockingLockShared);
    assert_eq!(refused, Err(rustix::io::Errno::WOULDBLOCK));
}

#[test]
fn a_wait_ends_when_it_is_cancelled_too_late_or_its_file_is_closed() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 100);
    let (mut holder, mut waiter) = (Delegate::new(&daemon), Delegate::new(&daemon));
    let (held, wanted) = (open(&mut holder, &path), open(&mut waiter, &path));
    assert_eq!(holder.on(OpKind::Lock, held, ALONE), 0);
    waiter.submit(&lock(wanted, ALONE, 1));
    waiter.submit(&Operation { timeout_us: 20_000, ..lock(wanted, SHARED, 2) });
    assert_eq!(waiter.next(), late(2, libc::ETIMEDOUT));
    waiter.submit(&Operation { kind: OpKind::Cancel, argument: 1, ..blank(3) });
    let mut ended = [waiter.next(), waiter.next()];
    ended.sort_by_key(|it| it.tag);
    assert_eq!(ended, [late(1, libc::ECANCELED), Completion { tag: 3, ..Completion::default() }]);
    waiter.submit(&lock(wanted, ALONE, 4));
    waiter.submit(&Operation { object: wanted, ..blank(5) });
    let mut ended = [waiter.next(), waiter.next()];
    ended.sort_by_key(|it| it.tag);
    assert_eq!(ended, [late(4, libc::EBADF), Completion { tag: 5, ..Completion::default() }]);
    // None of them has the lock in the end.
    assert_eq!(holder.on(OpKind::Lock, held, UNLOCK), 0);
    let outside = File::open(&path).unwrap();
    flock(&outside, FlockOperation::NonBlockingLockExclusive).unwrap();
}

fn late(tag: u64, errno: i32) -> Completion {
    Completion { tag, result: -i64::from(errno), ..Completion::default() }
}

#[test]
fn locks_and_waits_of_programs_that_die_end_with_them() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 100);
    let mut others: Vec<_> = (0..3).map(|_| Delegate::new(&daemon)).collect();
    let files: Vec<_> = others.iter_mut().map(|session| open(session, &path)).collect();
    let mut dying = Delegate::new(&daemon);
    let file = open(&mut dying, &path);
    assert_eq!(dying.on(OpKind::Lock, file, ALONE), 0);
    for (session, file) in others.iter_mut().zip(&files) {
        session.submit(&lock(*file, SHARED, 9));
    }
    let mut waiting = Delegate::new(&daemon);
    let wanted = open(&mut waiting, &path);
    waiting.submit(&lock(wanted, ALONE, 9));
    waiting.submissions.ring();
    drop(waiting);
    drop(dying);
    for session in &mut others {
        assert_eq!(session.next(), Completion { tag: 9, ..Completion::default() });
    }
    for (session, file) in others.iter_mut().zip(&files) {
        assert_eq!(session.on(OpKind::Lock, *file, UNLOCK), 0);
    }
    let outside = File::open(&path).unwrap();
    flock(&outside, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn whoever_waits_on_another_loop_is_told_as_well() {
    let daemon = Daemon::with("[delegated]\nloops = 3\n", &[]);
    let path = sample(&daemon, 100);
    let mut sessions: Vec<_> = (0..3).map(|_| Delegate::new(&daemon)).collect();
    let files: Vec<_> = sessions.iter_mut().map(|session| open(session, &path)).collect();
    assert_eq!(sessions[0].on(OpKind::Lock, files[0], ALONE), 0);
    for at in 1..3 {
        sessions[at].submit(&lock(files[at], ALONE, at as u64));
    }
    assert_eq!(sessions[0].on(OpKind::Lock, files[0], UNLOCK), 0);
    let (mut first, mut second) = (None, None);
    await_that("one of the two has it", || {
        for (at, found) in [(1, &mut first), (2, &mut second)] {
            let mut record = [0; COMPLETION_RECORD_BYTES];
            let popped = sessions[at].completions.pop(&mut record);
            *found = found.or(popped.ok().map(|_| at));
        }
        first.or(second).is_some()
    });
    let winner = first.or(second).unwrap();
    assert_eq!(sessions[winner].on(OpKind::Lock, files[winner], UNLOCK), 0);
    assert_eq!(sessions[3 - winner].next().tag, 3 - winner as u64);
}

#[test]
fn a_session_that_waits_for_as_many_locks_as_it_may_is_let_go_and_costs_others_nothing() {
    let daemon = Daemon::start();
    let path = sample(&daemon, 100);
    let (mut holder, mut waiter) = (Delegate::new(&daemon), Delegate::new(&daemon));
    let (held, wanted) = (open(&mut holder, &path), open(&mut waiter, &path));
    assert_eq!(holder.on(OpKind::Lock, held, ALONE), 0);
    (0..DEPTH_MAX as u64).for_each(|tag| waiter.submit(&lock(wanted, SHARED, tag)));
    waiter.submissions.ring();
    serves(&daemon);
    assert_eq!(holder.on(OpKind::Lock, held, UNLOCK), 0);
    let mut tags: Vec<_> = (0..DEPTH_MAX).map(|_| waiter.next()).map(|it| it.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..DEPTH_MAX as u64).collect::<Vec<_>>());
}
