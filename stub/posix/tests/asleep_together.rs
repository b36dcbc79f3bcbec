//! Several threads that sleep for one connection: no bell is taken from under one that still sleeps.

mod support;

use std::time::{Duration, Instant};

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_stub_posix::event::poll;
use heliostat_stub_posix::net::demote;
use heliostat_stub_posix::net::shadow::{self, sleepers, sleepers::Bells};
use heliostat_stub_posix::net::socket::{self, Connection, Sleeper, Stream};
use support::pair::{direct, End};
use support::set::Set;

/// So long nobody waits but who has been forgotten.
const LONG: Duration = Duration::from_secs(10);
/// Longer than a thread relies on another that sleeps for the same connection.
const BESIDE: Duration = Duration::from_millis(30);
const ROUNDS: usize = 60;
/// A client's end, and its bells rung by the server's.
struct Rung {
    client: End,
    server: End,
    stream: Stream,
}

impl Rung {
    fn new() -> Self {
        let (client, server) = direct();
        let stream = socket::at(client.index()).stream().expect("it is direct");
        Self { client, server, stream }
    }

    fn connection(&self) -> Connection<'_> {
        Connection::new(self.client.fd, socket::at(self.client.index()), &self.stream)
    }

    fn ring(&self) {
        let server = socket::at(self.server.index());
        let stream = server.stream().expect("it is direct");
        shadow::ring_bell(self.server.fd, server, &stream.outgoing, 0);
        let begun = Instant::now();
        while call::bytes_queued(self.client.fd).unwrap() == 0 {
            assert!(begun.elapsed() < LONG, "the bell is not on the shadow");
        }
    }

    /// Bells that nobody has taken off.
    fn pending(&self) -> u32 {
        self.stream.incoming.bells_pending()
    }
}

#[test]
fn the_last_of_those_that_a_bell_has_woken_takes_it() {
    for others in [Sleeper::Call, Sleeper::Poll] {
        let rung = Rung::new();
        let (first, _) = sleepers::lie_down_first(rung.connection(), Sleeper::Call).expect("alone");
        let (second, _) = sleepers::lie_down(rung.connection(), others);
        rung.ring();
        assert_eq!(sleepers::get_up(rung.connection(), first), Bells::Left);
        assert_eq!(rung.pending(), 1, "it is there for the other");
        assert_eq!(sleepers::get_up(rung.connection(), second), Bells::Taken);
        assert_eq!(rung.pending(), 0);
    }
}

#[test]
fn who_lies_down_takes_no_bell_from_one_that_sleeps() {
    let rung = Rung::new();
    let (first, _) = sleepers::lie_down(rung.connection(), Sleeper::Poll);
    rung.ring();
    let (second, _) =
        sleepers::lie_down_first(rung.connection(), Sleeper::Call).expect("no other call");
    assert!(sleepers::lie_down_first(rung.connection(), Sleeper::Call).is_none());
    sleepers::drain_unslept(rung.connection());
    assert_eq!(rung.pending(), 1);
    sleepers::get_up(rung.connection(), first);
    assert_eq!(rung.pending(), 1, "the second sleeps still");
    sleepers::get_up(rung.connection(), second);
    assert_eq!(rung.pending(), 0);
}

#[test]
fn a_thread_that_was_cancelled_in_its_sleep_is_missed() {
    let rung = Rung::new();
    std::thread::scope(|scope| {
        let asleep = || sleepers::lie_down_first(rung.connection(), Sleeper::Peeker).is_some();
        assert!(scope.spawn(asleep).join().unwrap());
    });
    rung.ring();
    let begun = Instant::now();
    let place = loop {
        match sleepers::lie_down_first(rung.connection(), Sleeper::Call) {
            Some((place, _)) => break place,
            // The kernel has its number for a moment after it was joined.
            None => assert!(begun.elapsed() < LONG, "the cancelled thread is still first"),
        }
    };
    assert_eq!(rung.pending(), 0);
    sleepers::get_up(rung.connection(), place);
}

#[test]
fn a_sleeper_that_never_gets_up_keeps_no_bell_for_ever() {
    let rung = Rung::new();
    let (jumped_out, _) = sleepers::lie_down(rung.connection(), Sleeper::Poll);
    rung.ring();
    let begun = Instant::now();
    while rung.pending() > 0 {
        assert!(begun.elapsed() < LONG, "the bell is kept");
        let (place, _) = sleepers::lie_down(rung.connection(), Sleeper::Call);
        sleepers::get_up(rung.connection(), place);
    }
    // It was asleep all the same: it is not among those who sleep there now.
    let (place, _) = sleepers::lie_down(rung.connection(), Sleeper::Poll);
    sleepers::get_up(rung.connection(), jumped_out);
    rung.ring();
    assert_eq!(sleepers::drain_unslept(rung.connection()), Bells::Left);
    sleepers::get_up(rung.connection(), place);
}

/// More than stay where one is taken: an epoll set leaves a few on the shadow.
const MANY_BELLS: u32 = 8;

#[test]
fn a_set_hears_of_bells_that_another_set_has_taken() {
    let rung = Rung::new();
    let sets = [Set::new(), Set::new()];
    for set in &sets {
        set.control(libc::EPOLL_CTL_ADD, &rung.client, libc::EPOLLIN as u32);
        assert!(set.is_quiet());
    }
    assert_eq!(rung.server.send(b"x", 0), Ok(1));
    (0..MANY_BELLS).for_each(|_| rung.ring());
    for set in &sets {
        assert_ne!(set.wait(LONG) & libc::EPOLLIN as u32, 0);
    }
}

/// Sends so much that the client finds no room for more.
fn fill(end: &End) {
    while end.send(&[7; 4096], libc::MSG_DONTWAIT).is_ok() {}
}

fn empty(end: &End) {
    while end.recv(&mut vec![0; 1 << 20], libc::MSG_DONTWAIT).is_ok() {}
}

/// Waits with poll(2); what was found.
fn polled(end: &End, events: i16) -> i16 {
    let mut fds = [libc::pollfd { fd: end.fd, events, revents: 0 }];
    let found = poll::poll(&mut fds, Some(LONG.as_nanos() as u64), None).expect("it is direct");
    assert_eq!(found.map_err(|error| error.0), Ok(1), "it slept through what it waited for");
    fds[0].revents
}

/// One thread waits for room, in its own way, another for bytes, in its own, until the peer has let the first one
/// go on, and then sends. `make_room` is told whether that one has.
fn beside(
    room: impl Fn(&End) + Sync,
    bytes: impl Fn(&End) + Sync,
    make_room: impl Fn(&End, &dyn Fn() -> bool),
) -> End {
    let (client, server) = direct();
    [&client, &server].iter().for_each(|end| end.set_timeouts(LONG));
    fill(&client);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| room(&client));
        scope.spawn(|| bytes(&client));
        std::thread::sleep(BESIDE);
        make_room(&server, &|| waits.is_finished());
        waits.join().expect("room came");
        assert_eq!(server.send(b"x", 0), Ok(1));
    });
    client
}

fn room_then_bytes(room: impl Fn(&End) + Sync, bytes: impl Fn(&End) + Sync) {
    for _ in 0..ROUNDS {
        beside(&room, &bytes, |server, _| empty(server));
    }
}

fn polls_room(end: &End) {
    assert_ne!(polled(end, libc::POLLOUT) & libc::POLLOUT, 0);
}

fn polls_bytes(end: &End) {
    assert_ne!(polled(end, libc::POLLIN) & libc::POLLIN, 0);
}

fn sends(end: &End) {
    assert_eq!(end.send(&[1; 4096], 0), Ok(4096));
}

fn receives(end: &End) {
    assert_eq!(end.recv(&mut [0; 1], 0), Ok(1));
}

#[test]
fn a_writer_hears_of_room_beside_a_reader() {
    room_then_bytes(sends, receives);
}

#[test]
fn a_poll_for_room_hears_of_it_beside_one_for_bytes() {
    room_then_bytes(polls_room, polls_bytes);
}

#[test]
fn a_writer_hears_of_room_beside_a_poll() {
    room_then_bytes(sends, polls_bytes);
}

#[test]
fn a_poll_for_room_hears_of_it_beside_a_reader() {
    room_then_bytes(polls_room, receives);
}

/// Waits in an epoll set of its own.
fn waits(end: &End, events: u32) {
    let set = Set::new();
    set.control(libc::EPOLL_CTL_ADD, end, events);
    assert_ne!(set.wait(LONG) & events, 0, "it slept through what it waited for");
}

fn set_of_room(end: &End) {
    waits(end, libc::EPOLLOUT as u32);
}

fn set_of_bytes(end: &End) {
    waits(end, libc::EPOLLIN as u32);
}

#[test]
fn a_set_hears_of_room_beside_a_reader() {
    room_then_bytes(set_of_room, receives);
}

#[test]
fn a_set_hears_of_room_beside_a_poll() {
    room_then_bytes(set_of_room, polls_bytes);
}

#[test]
fn a_set_hears_of_room_beside_another_set() {
    room_then_bytes(set_of_room, set_of_bytes);
}

#[test]
fn calls_hear_of_room_beside_a_set() {
    room_then_bytes(sends, set_of_bytes);
    room_then_bytes(polls_room, set_of_bytes);
}

#[test]
fn a_writer_hears_that_its_peer_has_left_beside_those_that_wait_for_bytes() {
    let others: [fn(&End); 2] = [receives, polls_bytes];
    let leave = |server: &End, is_through: &dyn Fn() -> bool| {
        demote::leave(server.fd, server.index(), Native::Option);
        let begun = Instant::now();
        while !is_through() && begun.elapsed() < 2 * LONG {
            empty(server);
        }
    };
    for turn in 0..ROUNDS {
        assert!(!beside(sends, others[turn % 2], leave).is_direct());
    }
}
