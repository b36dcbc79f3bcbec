//! A peer that counts bells which it does not ring, or rings without an end: it holds up no call.
//!
//! What a call does is told by what it gives and by what it leaves, not by the clock.

mod support;

use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use heliostat_abi::stream::channel::direction::{SWITCHED, TAKEN_BACK};
use heliostat_base::call;
use heliostat_ring::stream::Lane;
use heliostat_stub_posix::event::epoll::{self, Waited};
use heliostat_stub_posix::net::socket;
use support::pair::{direct, End};

/// A stream both of whose rings are begun.
fn begun() -> (End, End) {
    let (client, server) = direct();
    for (from, to) in [(&client, &server), (&server, &client)] {
        assert_eq!(from.send(b"x", 0), Ok(1));
        assert_eq!(to.recv(&mut [0; 2], 0), Ok(1));
    }
    (client, server)
}

/// The lane that an end writes, as the end itself may write it.
fn lane_of(end: &End) -> Lane {
    socket::at(end.index()).stream().expect("it is direct").outgoing
}

/// An epoll set that watches `end` for bytes.
fn watching(end: &End) -> i32 {
    // SAFETY: epoll_create1 takes no pointer.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    epoll::created(set);
    let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 5 };
    let by_kernel = || unreachable!("a stream is added in memory");
    let added = epoll::control(set, libc::EPOLL_CTL_ADD, end.fd, Some(event), by_kernel);
    assert_eq!(added, Some(Ok(0)));
    set
}

fn close(set: i32) {
    heliostat_stub_posix::process::closing(set);
    let _ = call::close(set);
}

#[test]
fn a_switch_whose_bell_is_missing_is_waited_for_by_nobody_and_followed_when_it_rings() {
    let (client, server) = begun();
    let lane = lane_of(&client);
    lane.count_bell();
    lane.raise(SWITCHED | TAKEN_BACK);
    let mut piece = [0; 16];
    for _ in 0..3 {
        assert_eq!(server.recv(&mut piece, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
    }
    // Nobody has given the connection up: a peer may be stopped in front of ringing.
    assert!(server.is_direct());
    call::send(client.fd, b"\0payload", libc::MSG_NOSIGNAL).unwrap();
    assert_eq!(server.recv(&mut piece, 0), Ok(7));
    assert_eq!((&piece[..7], server.is_direct()), (&b"payload"[..], false));
}

#[test]
fn a_set_sleeps_beside_a_switch_whose_bell_is_missing() {
    let (client, server) = begun();
    let set = watching(&server);
    let lane = lane_of(&client);
    lane.count_bell();
    lane.raise(SWITCHED | TAKEN_BACK);
    let mut room = [const { MaybeUninit::uninit() }; 4];
    // What it would sleep for is all that the timeout has left, not nothing.
    let Waited::Sleep(limit) = epoll::look(set, &mut room, Some(u64::MAX / 2), false) else {
        panic!("there is nothing to tell");
    };
    assert!(limit > 1000, "{limit} ms");
    call::send(client.fd, b"\0payload", libc::MSG_NOSIGNAL).unwrap();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
    let count = call::epoll_wait(set, &mut events, Some(60_000_000_000), None).unwrap();
    let told = epoll::woken(set, Ok(&events[..count]), &mut room, None);
    let told = told.or_else(|| match epoll::look(set, &mut room, None, false) {
        Waited::Answer(answer) => answer,
        Waited::Sleep(_) => None,
    });
    assert!(matches!(told, None | Some(Ok(1))), "{told:?}");
    let mut piece = [0; 16];
    assert_eq!(server.recv(&mut piece, 0), Ok(7));
    assert_eq!(&piece[..7], b"payload");
    close(set);
}

#[test]
fn bells_that_are_counted_and_sent_all_the_while_keep_nobody() {
    let (client, server) = begun();
    let (lane, stop) = (lane_of(&client), AtomicBool::new(false));
    let send_more = || {
        // As many as fit: there is always another one to take.
        let _ = call::send(client.fd, &[0; 4096], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        (0..4096).for_each(|_| lane.count_bell());
    };
    (0..64).for_each(|_| send_more());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                send_more();
            }
        });
        let stream = socket::at(server.index()).stream().unwrap();
        let before = stream.incoming.bells_pending();
        heliostat_stub_posix::net::shadow::drain(
            server.fd,
            socket::at(server.index()),
            &stream.incoming,
        );
        assert!(stream.incoming.bells_pending() > before / 2, "all of {before} were taken");
        stop.store(true, Relaxed);
    });
}
