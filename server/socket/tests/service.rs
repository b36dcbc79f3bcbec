//! Operations on sockets, each against the kernel's own.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::socket::operation::{
    PollEntry, OWN, PEER, POLL_IN, POLL_OUT, POLL_UNKNOWN, RECEIVING, SENDING, SHARED_BIT,
};
use heliostat_abi::socket::Access;
use heliostat_server_loop::{Event, Order};
use heliostat_server_socket::{Guest, Judge, SocketEvent, SocketOrder};
use support::{accept, connect, listen, operation, plain, receive, send, Loop, One};

fn to(address: NetAddress) -> SocketAddr {
    SocketAddr::new(address.ip, address.port)
}

fn errno(errno: i32) -> i64 {
    -i64::from(errno)
}

/// A connection of the session with a socket of the kernel's.
fn pair(of: &mut Loop, one: &mut One) -> (ObjectId, TcpStream) {
    let (listener, address) = of.listener(one, 16);
    let peer = TcpStream::connect(to(address)).unwrap();
    let socket = of.object(one, accept(listener));
    assert_eq!(one.address(64), NetAddress::new(peer.local_addr().unwrap()));
    assert_eq!(of.ask(one, plain(OpKind::Close, listener, 0)), 0);
    (socket, peer)
}

#[test]
fn bytes_come_and_go_and_the_end_is_seen() {
    let mut of = Loop::new();
    let mut one = of.session();
    let (socket, mut peer) = pair(&mut of, &mut one);
    peer.write_all(b"question").unwrap();
    assert_eq!(of.ask(&mut one, receive(socket, 4096, 100)), 8);
    assert_eq!(one.bytes(4096, 8), b"question");
    one.window.copy_in(8192, b"answer").unwrap();
    assert_eq!(of.ask(&mut one, send(socket, 8192, 6)), 6);
    let mut answer = [0; 6];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(of.ask(&mut one, receive(socket, 4096, 100)), 0);
    assert_eq!(of.ask(&mut one, plain(OpKind::Shutdown, socket, SENDING)), 0);
    assert_eq!(peer.read(&mut answer).unwrap(), 0);
    assert_eq!(of.ask(&mut one, plain(OpKind::Close, socket, 0)), 0);
    assert_eq!(of.ask(&mut one, receive(socket, 4096, 100)), errno(libc::EBADF));
}

#[test]
fn a_connection_is_made_and_a_refused_one_leaves_nothing() {
    let mut of = Loop::new();
    let mut one = of.session();
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    one.put_address(0, there.local_addr().unwrap());
    let socket = of.object(&mut one, connect(0));
    let (_, from) = there.accept().unwrap();
    let own = operation(OpKind::Address, socket, OWN, &[(100, 24)]);
    let peer = operation(OpKind::Address, socket, PEER, &[(200, 24)]);
    assert_eq!((of.ask(&mut one, own), of.ask(&mut one, peer)), (0, 0));
    assert_eq!(to(one.address(100)), from);
    assert_eq!(to(one.address(200)), there.local_addr().unwrap());
    drop(there);
    assert_eq!(of.ask(&mut one, connect(0)), errno(libc::ECONNREFUSED));
    of.sweep(4);
    assert_eq!(of.budget.used(), 1, "the refused one's place is given back");
}

#[test]
fn what_the_rules_refuse_is_told_and_not_done() {
    let mut of = Loop::new();
    let mut one = of.session();
    one.put_address(0, "127.0.0.1:1".parse().unwrap());
    assert_eq!(of.ask(&mut one, connect(0)), errno(libc::EACCES));
    assert_eq!(of.ask(&mut one, listen(4)), errno(libc::EACCES));
    (0..50).for_each(|_| assert_eq!(of.ask(&mut one, connect(0)), errno(libc::EACCES)));
    let told: Vec<_> = of.events.try_iter().collect();
    let [Event::Service(SocketEvent::Refused(_, Access::Connect, _, refusals))] = &told[..] else {
        panic!("one is told until it is heard of");
    };
    assert_eq!(refusals.take(), 51, "the others are counted");
    assert_eq!(of.ask(&mut one, listen(4)), errno(libc::EACCES));
    assert_eq!(of.events.try_iter().count(), 1);
    one.window.copy_in(0, &[9; 24]).unwrap();
    assert_eq!(of.ask(&mut one, connect(0)), errno(libc::EINVAL), "no address");
}

/// The loopback is nobody's.
struct NotHere;

impl Judge for NotHere {
    fn judge(&self, access: Access, address: NetAddress) -> Result<(), i32> {
        let is_near = address.ip.is_loopback() && access == Access::Connect;
        (!is_near).then_some(()).ok_or(libc::EACCES)
    }
}

#[test]
fn no_address_is_the_loopback_and_judged_as_that() {
    let mut of = Loop::new();
    let mut one = of.session();
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = there.local_addr().unwrap().port();
    one.put_address(0, SocketAddr::from(([0, 0, 0, 0], port)));
    let socket = of.object(&mut one, connect(0));
    let peer = operation(OpKind::Address, socket, PEER, &[(200, 24)]);
    assert_eq!(of.ask(&mut one, peer), 0);
    assert_eq!(to(one.address(200)), there.local_addr().unwrap());
    let guest = Guest { user: 7, judge: Arc::new(NotHere), budget: of.budget.clone() };
    of.server.carry_out(Order::Service(SocketOrder::Guest(one.id, guest)));
    for address in ["0.0.0.0", "::", "::ffff:0.0.0.0", "127.0.0.1", "::1"] {
        one.put_address(0, SocketAddr::new(address.parse().unwrap(), port));
        assert_eq!(of.ask(&mut one, connect(0)), errno(libc::EACCES), "{address}");
    }
    one.put_address(0, "0.0.0.0:0".parse().unwrap());
    of.object(&mut one, listen(4));
}

#[test]
fn waits_end_with_their_time_or_when_cancelled() {
    let mut of = Loop::new();
    let mut one = of.session();
    let (socket, _peer) = pair(&mut of, &mut one);
    let timed = Operation { timeout_us: 2000, ..receive(socket, 4096, 10) };
    assert_eq!(of.ask(&mut one, timed), errno(libc::ETIMEDOUT));
    let tag = one.submit(receive(socket, 4096, 10));
    of.sweep(10);
    assert_eq!(of.ask(&mut one, plain(OpKind::Cancel, ObjectId::default(), tag)), 0);
    assert_eq!(of.wait(&mut one, tag).result, errno(libc::ECANCELED));
    let tag = one.submit(receive(socket, 4096, 10));
    of.sweep(10);
    assert_eq!(of.ask(&mut one, plain(OpKind::Close, socket, 0)), 0);
    assert_eq!(of.wait(&mut one, tag).result, errno(libc::EBADF), "its socket was closed");
}

#[test]
fn a_large_send_waits_for_its_reader_and_arrives_whole() {
    let mut of = Loop::new();
    let mut one = of.session();
    let (socket, mut peer) = pair(&mut of, &mut one);
    let pattern: Vec<u8> = (0..support::WINDOW).map(|at| (at / 7) as u8).collect();
    one.window.copy_in(0, &pattern).unwrap();
    let tags: Vec<_> = (0..8).map(|_| one.submit(send(socket, 0, support::WINDOW))).collect();
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; 8 * support::WINDOW];
        peer.read_exact(&mut all).unwrap();
        all
    });
    for tag in tags {
        assert_eq!(of.wait(&mut one, tag).result, support::WINDOW as i64);
    }
    let all = reader.join().unwrap();
    assert!(all.chunks(support::WINDOW).all(|part| part == pattern));
}

#[test]
fn poll_tells_what_is_ready_and_waits_for_it() {
    let mut of = Loop::new();
    let mut one = of.session();
    let (socket, mut peer) = pair(&mut of, &mut one);
    let (listener, address) = of.listener(&mut one, 4);
    let entry = |socket, wanted| PollEntry { socket, wanted, found: 0 }.encode();
    let found = |one: &One| -> Vec<u16> {
        let bytes = one.bytes(1024, 48);
        bytes.chunks(16).map(|entry| u16::from_le_bytes([entry[10], entry[11]])).collect()
    };
    let gone = ObjectId { index: 99, generation: 1 };
    let put = |one: &One, entries: [[u8; 16]; 3]| {
        one.window.copy_in(1024, &entries.concat()).unwrap();
    };
    put(&one, [entry(socket, POLL_IN | POLL_OUT), entry(listener, POLL_IN), entry(gone, 0)]);
    let poll = operation(OpKind::Poll, ObjectId::default(), 0, &[(1024, 48)]);
    assert_eq!((of.ask(&mut one, poll), found(&one)), (2, vec![POLL_OUT, 0, POLL_UNKNOWN]));
    put(&one, [entry(socket, POLL_IN), entry(listener, POLL_IN), entry(listener, 0)]);
    let tag = one.submit(poll);
    of.sweep(20);
    assert_eq!(one.take(tag), None);
    peer.write_all(b"x").unwrap();
    assert_eq!((of.wait(&mut one, tag).result, found(&one)[0]), (1, POLL_IN));
    let _client = TcpStream::connect(to(address)).unwrap();
    assert_eq!(of.ask(&mut one, receive(socket, 4096, 10)), 1);
    assert_eq!((of.ask(&mut one, poll), found(&one)), (1, vec![0, POLL_IN, 0]));
    one.window.copy_in(1024, &[0xff; 16]).unwrap();
    assert_eq!(of.ask(&mut one, poll), errno(libc::EINVAL), "bits that nobody knows");
}

#[test]
fn a_shared_listener_gives_connections_to_who_waits_with_the_least() {
    let mut of = Loop::new();
    let (mut one, mut other) = (of.session(), of.session());
    let (first, address) = of.listener(&mut one, 16 | SHARED_BIT);
    other.put_address(0, to(address));
    let second = of.object(&mut other, listen(16 | SHARED_BIT));
    let tags: Vec<_> =
        (0..4).map(|_| (one.submit(accept(first)), other.submit(accept(second)))).collect();
    of.sweep(20);
    let _peers: Vec<_> = (0..4).map(|_| TcpStream::connect(to(address)).unwrap()).collect();
    of.sweep(200);
    let done = |one: &mut One, tag| one.take(tag).is_some_and(|it| it.result >= 0);
    let counts = tags.iter().fold((0, 0), |(a, b), (own, others)| {
        (a + u32::from(done(&mut one, *own)), b + u32::from(done(&mut other, *others)))
    });
    assert_eq!(counts, (2, 2));
}

#[test]
fn what_a_member_that_ends_had_not_taken_is_the_others() {
    let mut of = Loop::new();
    let (mut one, mut other) = (of.session(), of.session());
    let (first, address) = of.listener(&mut one, 16 | SHARED_BIT);
    other.put_address(0, to(address));
    let second = of.object(&mut other, listen(16 | SHARED_BIT));
    for _ in 0..8 {
        one.submit(accept(first));
    }
    of.sweep(20);
    of.end(&one);
    let mut peers: Vec<_> = (0..5).map(|_| TcpStream::connect(to(address)).unwrap()).collect();
    for peer in &mut peers {
        let socket = of.object(&mut other, accept(second));
        other.window.copy_in(4096, b"here").unwrap();
        assert_eq!(of.ask(&mut other, send(socket, 4096, 4)), 4);
        let mut word = [0; 4];
        peer.read_exact(&mut word).unwrap();
    }
    of.end(&other);
    of.sweep(4);
    assert_eq!(of.budget.used(), 0);
    assert!(TcpStream::connect(to(address)).is_err(), "the last member closes the listener");
}

#[test]
fn no_more_sockets_than_there_may_be_and_the_connection_waits_for_a_place() {
    let mut of = Loop::with_sockets(3);
    let mut one = of.session();
    let (listener, address) = of.listener(&mut one, 16);
    let _first = TcpStream::connect(to(address)).unwrap();
    let mut second = TcpStream::connect(to(address)).unwrap();
    let socket = of.object(&mut one, accept(listener));
    assert_eq!(of.ask(&mut one, accept(listener)), errno(libc::ENFILE));
    assert_eq!(of.ask(&mut one, plain(OpKind::Close, socket, 0)), 0);
    let socket = of.object(&mut one, accept(listener));
    second.write_all(b"x").unwrap();
    assert_eq!(of.ask(&mut one, receive(socket, 4096, 10)), 1, "it was not lost");
}

#[test]
fn what_is_no_connection_is_refused_as_such() {
    let mut of = Loop::new();
    let mut one = of.session();
    let (listener, _) = of.listener(&mut one, 4);
    assert_eq!(of.ask(&mut one, receive(listener, 4096, 10)), errno(libc::ENOTCONN));
    assert_eq!(
        of.ask(&mut one, plain(OpKind::Shutdown, listener, RECEIVING)),
        errno(libc::ENOTCONN)
    );
    let (socket, _peer) = pair(&mut of, &mut one);
    assert_eq!(of.ask(&mut one, accept(socket)), errno(libc::EINVAL));
    assert_eq!(
        of.ask(&mut one, Operation { offset: 1, ..receive(socket, 0, 1) }),
        errno(libc::EINVAL)
    );
    for kind in [OpKind::Fsync, OpKind::Reply, OpKind::Append] {
        let pieces: &[_] = if kind == OpKind::Append { &[(0, 8)] } else { &[] };
        assert_eq!(of.ask(&mut one, operation(kind, socket, 0, pieces)), errno(libc::EINVAL));
    }
}
