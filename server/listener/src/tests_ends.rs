//! What others may do to the thread's descriptors, and what becomes of connections at the end.

use super::tests::*;
use crate::accepting::Accepting;
use crate::listener::SharedListener;
use crate::{Balancer, HeldShares, WorkerEnds};
use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::Rule;
use heliostat_base::sync::AtomicBool;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_service_grant::Shares;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{
    socketpair, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType,
};
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What must not wait takes less.
const PROMPT: Duration = Duration::from_secs(10);
/// What lingers does so for longer.
const LINGERS: Duration = Duration::from_secs(60);

/// A client that is gone at once, and leaves no address in use.
fn visit(house: &House) {
    let client = house.connect();
    heliostat_base::call::linger_zero(client.as_raw_fd()).unwrap();
}

/// Workers accept by themselves, and let the socket block, as fast as they can; meanwhile the control
/// plane looks.
fn is_not_held_up(house: &House) {
    house.serve(0);
    let is_over = Arc::new(AtomicBool::new(false));
    let thieves: Vec<_> = (0..2)
        .map(|_| {
            let (socket, is_over) = (house.socket.try_clone().unwrap(), is_over.clone());
            std::thread::spawn(move || {
                while !is_over.load(Relaxed) {
                    socket.set_nonblocking(true).unwrap();
                    let stolen = socket.accept();
                    socket.set_nonblocking(false).unwrap();
                    drop(stolen);
                }
            })
        })
        .collect();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1500) {
        visit(house);
        let asked = Instant::now();
        house.view();
        assert!(asked.elapsed() < PROMPT, "the thread waits for a connection");
    }
    is_over.store(true, Relaxed);
    // One of them may be waiting itself.
    while thieves.iter().any(|it| !it.is_finished()) {
        visit(house);
        sleep(Duration::from_millis(1));
    }
}

/// Looks from another thread, so that a house that hangs fails and does not hang the test.
fn watched(work: impl FnOnce() + Send + 'static) {
    let worked = std::thread::spawn(work);
    let began = Instant::now();
    while !worked.is_finished() {
        assert!(began.elapsed() < PROMPT * 2, "it hangs");
        sleep(Duration::from_millis(10));
    }
    worked.join().unwrap();
}

/// Gives a listener up, and waits for the end of its thread.
fn end(balancer: Balancer) {
    let ending = balancer.end();
    let began = Instant::now();
    while !ending.is_over() {
        assert!(began.elapsed() < PROMPT, "the thread goes on");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_socket_that_others_let_block_holds_nobody_up() {
    watched(|| is_not_held_up(&House::new(Rule::LeastLoad, 1)));
}

#[test]
fn without_a_ring_it_holds_nobody_up_either() {
    watched(|| {
        let held = HeldShares::new(Shares::whole(1 << 20));
        let listener = SharedListener::new(LISTENER, owner(), Rule::LeastLoad);
        let balancer = Balancer::start_with(listener, held, Accepting::threads).unwrap();
        let house = House::of(balancer, 1);
        house.serve(0);
        let mut client = house.connect();
        let (_, mut served) = house.next();
        is_whole(&mut client, &mut served);
        is_not_held_up(&house);
    });
}

/// Makes the last close of a connected socket wait: its peer reads nothing.
fn fill(stream: &TcpStream) {
    set_socket_linger(stream, Some(LINGERS)).unwrap();
    stream.set_nonblocking(true).unwrap();
    while (&mut &*stream).write(&[0; 65536]).is_ok() {}
    stream.set_nonblocking(false).unwrap();
}

#[test]
fn a_plugin_that_sends_a_socket_that_lingers_holds_nobody_up() {
    watched(|| {
        let house = House::new(Rule::Plugin(Peek { bytes_max: 0, deadline_ms: 100 }), 1);
        house.serve(0);
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        house.balancer.set_plugin(owner().own(pair.0)).unwrap();
        let peer = TcpListener::bind("127.0.0.1:0").unwrap();
        for _ in 0..2 {
            let stream = TcpStream::connect(peer.local_addr().unwrap()).unwrap();
            fill(&stream);
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let fds = [stream.as_fd()];
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
            let sent = [IoSlice::new(b"garbage")];
            // The first may have ended it already.
            let _ = rustix::net::sendmsg(&pair.1, &sent, &mut ancillary, SendFlags::NOSIGNAL);
            // Whoever lets go of it last waits, which this thread may be at any time after.
            drop(owner().own(stream.into()));
        }
        house.wait_until(|view| !view.has_plugin);
        let mut client = house.connect();
        let (_, mut served) = house.next();
        is_whole(&mut client, &mut served);
    });
}

#[test]
fn a_listening_socket_that_has_become_one_that_lingers_holds_nobody_up() {
    for is_removed in [true, false] {
        watched(move || {
            let house = House::new(Rule::LeastLoad, 1);
            // By shutdown(2) and connect(2) its owner can make it such a one.
            let peer = TcpListener::bind("127.0.0.1:0").unwrap();
            let stream = TcpStream::connect(peer.local_addr().unwrap()).unwrap();
            let (mut answering, _) = peer.accept().unwrap();
            fill(&stream);
            house.balancer.add_socket(owner().own(stream.into())).unwrap();
            if is_removed {
                return end(house.balancer);
            }
            house.serve(0);
            answering.write_all(b"x").unwrap();
            let mut client = house.connect();
            let (_, mut served) = house.next();
            is_whole(&mut client, &mut served);
            sleep(Duration::from_millis(100));
            house.view();
        });
    }
}

#[test]
fn a_listener_that_ends_gives_its_workers_what_it_has() {
    let house = House::new(Rule::RoundRobin, 2);
    (0..2).for_each(|place| house.balancer.ready(worker(place)).unwrap());
    let clients: Vec<TcpStream> = (0..10).map(|_| house.connect()).collect();
    house.wait_until(|view| view.counts.given == 10);
    end(house.balancer);
    are_all_served(&house.ends, clients);
}

#[test]
fn clients_that_are_silent_when_a_listener_ends_are_given_too() {
    let peek = Peek { bytes_max: 64, deadline_ms: 60_000 };
    for is_removed in [true, false] {
        let house = House::new(Rule::Content(peek), 1);
        house.balancer.ready(worker(0)).unwrap();
        let clients: Vec<TcpStream> = (0..20).map(|_| house.connect()).collect();
        house.wait_until(|view| view.held == 20);
        match is_removed {
            true => end(house.balancer),
            false => house.balancer.dismiss(worker(0)),
        }
        are_all_served(&house.ends, clients);
    }
}

/// The workers read their queues to the end, and have every client then.
fn are_all_served(ends: &[WorkerEnds], mut clients: Vec<TcpStream>) {
    let mut served = Vec::new();
    for ends in ends {
        served.extend(std::iter::from_fn(|| take(&ends.queue, 0)));
    }
    assert_eq!(served.len(), clients.len());
    for client in &mut clients {
        let own = client.local_addr().unwrap();
        let at = served.iter().position(|it| it.peer_addr().unwrap() == own).unwrap();
        is_whole(client, &mut served[at]);
    }
}

#[test]
fn an_owner_holds_no_more_than_its_share_and_its_listeners_go_on_when_it_has_less() {
    let peek = Peek { bytes_max: 64, deadline_ms: 60_000 };
    // Half of four for one listener: two that are silent fill it.
    let held = HeldShares::new(Shares { user: 4, ..Shares::whole(1 << 20) });
    let start = || {
        let started = Balancer::start(LISTENER, owner(), Rule::Content(peek), held.clone());
        House::of(started.unwrap(), 1)
    };
    let (house, other) = (start(), start());
    house.serve(0);
    let mut silent: Vec<TcpStream> = (0..2).map(|_| house.connect()).collect();
    house.wait_until(|view| view.held == 2);
    let more = house.connect();
    assert_eq!(house.next().1.peer_addr().unwrap(), silent[0].local_addr().unwrap());
    other.balancer.ready(worker(0)).unwrap();
    let _others: Vec<TcpStream> = (0..2).map(|_| other.connect()).collect();
    other.wait_until(|view| view.held == 2 && !view.is_open);
    assert_eq!(held.used(owner().holder).user, 4);
    let _waits = other.connect();
    sleep(Duration::from_millis(200));
    assert_eq!(other.view().counts.accepted, 2, "it stays in the backlog");
    silent[1].write_all(b"GET /\n").unwrap();
    house.next();
    other.wait_until(|view| view.counts.accepted == 3);
    drop(more);
}
