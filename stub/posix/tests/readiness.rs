//! epoll and poll over direct streams: level, edge and one-shot, and sleepers beside each other.

mod support;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use heliostat_stub_posix::event::poll;
use support::pair::{direct, End, Listener};
use support::set::Set;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// Only what never comes takes so long.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_level_triggered_interest_is_told_until_the_bytes_are_read() {
    let ((client, server), set) = (direct(), Set::new());
    set.control(libc::EPOLL_CTL_ADD, &server, IN);
    assert!(set.is_quiet());
    client.send(b"abc", 0).unwrap();
    assert_eq!(set.wait(SOON) & IN, IN);
    assert_eq!(set.wait(SOON) & IN, IN);
    server.recv(&mut [0; 8], 0).unwrap();
    assert!(set.is_quiet());
}

#[test]
fn an_edge_triggered_interest_is_told_once_for_each_arrival() {
    let ((client, server), set) = (direct(), Set::new());
    set.control(libc::EPOLL_CTL_ADD, &server, IN | EDGE);
    client.send(b"abc", 0).unwrap();
    assert_eq!(set.wait(SOON) & IN, IN);
    assert!(set.is_quiet());
    client.send(b"def", 0).unwrap();
    assert_eq!(set.wait(SOON) & IN, IN);
    assert!(set.is_quiet());
}

#[test]
fn bytes_in_the_ring_that_were_told_beside_a_prefix_are_told_once_more_behind_it() {
    let listener = Listener::new();
    let client = listener.connect();
    assert_eq!(client.send(b"prefix", 0), Ok(6));
    let (server, set) = (listener.accept(), Set::new());
    set.control(libc::EPOLL_CTL_ADD, &server, IN | EDGE);
    assert_eq!(client.send(b", ring", 0), Ok(6));
    assert_eq!(set.wait(SOON) & IN, IN);
    // More than lay on the shadow, as a program reads that asked for FIONREAD before the ring was begun.
    assert_eq!(server.recv(&mut [0; 8], 0), Ok(8));
    assert_eq!(set.wait(SOON) & IN, IN);
    assert!(set.is_quiet());
}

#[test]
fn a_one_shot_interest_is_told_once_until_it_is_set_again() {
    let ((client, server), set) = (direct(), Set::new());
    set.control(libc::EPOLL_CTL_ADD, &server, IN | ONESHOT);
    client.send(b"abc", 0).unwrap();
    assert_eq!(set.wait(SOON) & IN, IN);
    assert!(set.is_quiet());
    set.control(libc::EPOLL_CTL_MOD, &server, IN | ONESHOT);
    assert_eq!(set.wait(SOON) & IN, IN);
}

/// A stream whose client is in a set for both edges, and was told once that it may write.
fn writable_by_edge() -> (End, End, Set) {
    let ((client, server), set) = (direct(), Set::new());
    set.control(libc::EPOLL_CTL_ADD, &client, IN | OUT | EDGE);
    assert_eq!(set.wait(SOON) & OUT, OUT);
    (client, server, set)
}

#[test]
fn an_edge_triggered_writer_hears_of_room_after_it_met_a_full_ring() {
    let (client, server, set) = writable_by_edge();
    let bytes = vec![1; 2 * support::RING_BYTES as usize];
    assert_eq!(client.send(&bytes, libc::MSG_DONTWAIT), Ok(bytes.len() / 2));
    assert!(set.is_quiet());
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        server.recv(&mut vec![0; support::RING_BYTES as usize], 0).unwrap();
        server
    });
    assert_eq!(set.wait(SOON) & OUT, OUT);
    reader.join().unwrap();
}

#[test]
fn a_waiting_thread_with_a_writable_edge_interest_uses_no_processor() {
    let (_client, _server, set) = writable_by_edge();
    let before = thread_cpu();
    assert_eq!(set.wait(Duration::from_millis(400)), 0);
    assert!(thread_cpu() - before < Duration::from_millis(100));
}

fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is one writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Starts a thread that blocks in recv for one byte and says when it got it.
fn blocked_reader(end: End) -> mpsc::Receiver<Instant> {
    let (told, hear) = mpsc::channel();
    std::thread::spawn(move || {
        end.set_timeouts(2 * SOON);
        assert_eq!(end.recv(&mut [0; 1], 0), Ok(1));
        told.send(Instant::now()).unwrap();
    });
    std::thread::sleep(Duration::from_millis(50));
    hear
}

#[test]
fn a_poll_that_ends_does_not_take_a_blocked_readers_bell_away() {
    let (client, server) = direct();
    let fd = server.fd;
    // The outgoing ring is full, so that a poll for room really sleeps.
    let bytes = vec![1; 2 * support::RING_BYTES as usize];
    server.send(&bytes, libc::MSG_DONTWAIT).unwrap();
    let hear = blocked_reader(server);
    let mut fds = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    assert_eq!(poll::poll(&mut fds, Some(30_000_000), None), Some(Ok(0)));
    client.send(b"x", 0).unwrap();
    hear.recv_timeout(SOON).expect("the blocked reader was woken");
}

#[test]
fn an_epoll_wait_that_ends_does_not_take_a_blocked_readers_bell_away() {
    let ((client, server), set) = (direct(), Set::new());
    set.control(libc::EPOLL_CTL_ADD, &server, OUT | EDGE);
    assert_eq!(set.wait(SOON) & OUT, OUT);
    let hear = blocked_reader(server);
    assert!(set.is_quiet());
    client.send(b"x", 0).unwrap();
    hear.recv_timeout(SOON).expect("the blocked reader was woken");
}

#[test]
fn two_threads_asleep_in_one_set_are_both_woken_for_their_bytes() {
    let ((client, server), set) = (direct(), Set::new());
    let (other_client, other_server) = direct();
    set.control(libc::EPOLL_CTL_ADD, &server, IN | ONESHOT);
    set.control(libc::EPOLL_CTL_ADD, &other_server, IN | ONESHOT);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..2).map(|_| scope.spawn(|| set.wait(SOON))).collect();
        std::thread::sleep(Duration::from_millis(50));
        client.send(b"x", 0).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        other_client.send(b"x", 0).unwrap();
        waiting.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap() & IN, IN));
    });
}

#[test]
fn a_negative_descriptor_of_a_poll_is_never_ready() {
    let (client, server) = direct();
    client.send(b"x", 0).unwrap();
    let mut fds = [
        libc::pollfd { fd: server.fd, events: libc::POLLIN, revents: 0 },
        libc::pollfd { fd: -1, events: libc::POLLIN, revents: libc::POLLIN },
    ];
    assert_eq!(poll::poll(&mut fds, Some(0), None), Some(Ok(1)));
    assert_eq!((fds[0].revents & libc::POLLIN, fds[1].revents), (libc::POLLIN, 0));
}
