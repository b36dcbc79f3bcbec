//! Processes that wait on one end after a fork: what one of them takes, or says when it waits no more,
//! lets no other one sleep on.

mod support;

use std::io::IoSliceMut;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use heliostat_base::sys::Errno;
use heliostat_stub_posix::event::poll;
use heliostat_stub_posix::net::early::proof::{self, Proof};
use heliostat_stub_posix::net::receive::{self, Received};
use heliostat_stub_posix::net::socket::{self, Connection, Stage};
use heliostat_stub_posix::process;
use support::child::{forked, waited};
use support::pair::{direct, End, Listener};
use support::set::Set;

/// A fork shares every stream of its process: these tests run one by one.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A child is asleep after this, on a machine that is not held up.
const ASLEEP: Duration = Duration::from_millis(150);
/// Only a lost wake-up takes so long.
const LOST: Duration = Duration::from_secs(5);
const IN: u32 = libc::EPOLLIN as u32;

/// poll(2) for bytes of one end.
fn poll_in(end: &End, limit: Duration) -> usize {
    let mut fds = [libc::pollfd { fd: end.fd, events: libc::POLLIN, revents: 0 }];
    let answer = poll::poll(&mut fds, Some(limit.as_nanos() as u64), None);
    answer.expect("it is direct").expect("no error")
}

/// A child that waits for a byte by `wait`, beside its parent, whose own wait for the same ends before
/// the byte comes: the word that asks for a bell is gone.
fn is_told_beside_a_sibling_that_has_gone_on(
    (from, to): (&End, &End),
    wait: impl FnOnce() -> bool,
) -> bool {
    process::before_fork();
    let child = forked(|| {
        process::in_forked_child();
        let began = Instant::now();
        wait() && began.elapsed() < LOST
    });
    std::thread::sleep(ASLEEP);
    assert_eq!(poll_in(to, Duration::from_millis(20)), 0);
    assert_eq!(from.send(b"x", 0), Ok(1));
    waited(child) == 0
}

#[test]
fn a_poll_beside_a_sibling_that_has_gone_on_is_told() {
    let _alone = alone();
    let (client, server) = direct();
    let wait = || poll_in(&server, 2 * LOST) == 1;
    assert!(is_told_beside_a_sibling_that_has_gone_on((&client, &server), wait));
}

#[test]
fn a_set_made_after_the_fork_is_told_beside_a_sibling_that_has_gone_on() {
    let _alone = alone();
    let (client, server) = direct();
    let wait = || {
        let set = Set::new();
        set.control(libc::EPOLL_CTL_ADD, &server, IN);
        set.wait(2 * LOST) & IN == IN
    };
    assert!(is_told_beside_a_sibling_that_has_gone_on((&client, &server), wait));
}

#[test]
fn a_poll_on_a_set_is_told_beside_a_sibling_that_has_gone_on() {
    let _alone = alone();
    let (client, server) = direct();
    let wait = || {
        let set = Set::new();
        set.control(libc::EPOLL_CTL_ADD, &server, IN);
        let mut fds = [libc::pollfd { fd: set.fd(), events: libc::POLLIN, revents: 0 }];
        let limit = 2 * LOST.as_nanos() as u64;
        poll::poll(&mut fds, Some(limit), None) == Some(Ok(1))
    };
    assert!(is_told_beside_a_sibling_that_has_gone_on((&client, &server), wait));
}

#[test]
fn a_read_that_began_while_the_stream_was_early_ends_when_a_sibling_has_settled_it() {
    let _alone = alone();
    let listener = Listener::new();
    let client = listener.connect();
    let server = listener.accept();
    process::before_fork();
    let stage = || socket::at(client.index()).stage();
    assert_eq!(stage(), Stage::Started);
    let child = forked(|| {
        process::in_forked_child();
        client.set_timeouts(2 * LOST);
        let began = Instant::now();
        client.recv(&mut [0; 8], 0) == Ok(1) && began.elapsed() < LOST
    });
    std::thread::sleep(ASLEEP);
    let accepted = socket::at(server.index());
    let stream = accepted.stream().expect("it is direct");
    assert_eq!(proof::look(Connection::new(server.fd, accepted, &stream)), Proof::True);
    assert_eq!(poll_in(&client, Duration::from_millis(20)), 0);
    assert_eq!(stage(), Stage::Settled);
    assert_eq!(server.send(b"x", 0), Ok(1));
    assert_eq!(waited(child), 0);
}

/// True when a read that finds nothing sleeps for ever, with no clock.
fn sleeps_without_a_clock(end: &End) -> bool {
    end.set_timeouts(Duration::from_millis(30));
    let mut byte = [0];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    match receive::receive(end.fd, end.index(), &mut buffers, 0, None) {
        Received::Answer(answer) => {
            assert_eq!(answer, Some(Err(Errno(libc::EAGAIN))));
            false
        }
        Received::Sleep => {
            let sleeper = receive::sleeper(end.index());
            let slept = Err(Errno(libc::EAGAIN));
            assert!(receive::woken(end.fd, end.index(), sleeper, slept).is_some());
            true
        }
    }
}

#[test]
fn a_parent_looks_by_itself_only_while_its_child_holds_the_end() {
    let _alone = alone();
    let (_client, server) = direct();
    assert!(sleeps_without_a_clock(&server));
    process::before_fork();
    let child = forked(|| {
        process::in_forked_child();
        std::thread::sleep(2 * ASLEEP);
        process::before_exit();
        true
    });
    assert!(!sleeps_without_a_clock(&server));
    assert_eq!(waited(child), 0);
    assert!(sleeps_without_a_clock(&server));
}

#[test]
fn an_end_is_not_shared_by_forks_that_failed() {
    let _alone = alone();
    let (_client, server) = direct();
    let is_shared = || socket::at(server.index()).is_shared();
    process::before_fork();
    process::before_fork();
    process::fork_failed();
    assert!(is_shared(), "the other fork may have a child");
    process::fork_failed();
    assert!(!is_shared());
    process::fork_failed();
    let stream = socket::at(server.index()).stream().expect("it is direct");
    assert!(stream.slot.let_go(stream.side, false), "it was held once");
}
