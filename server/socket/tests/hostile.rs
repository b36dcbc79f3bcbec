//! Sessions and peers that do what they should not: nobody suffers but themselves.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_server_loop::Event;
use heliostat_server_socket::SocketEvent;
use support::{accept, receive, send, Loop, One};

fn to(address: NetAddress) -> SocketAddr {
    SocketAddr::new(address.ip, address.port)
}

/// A number that looks random, the next one of a seed.
fn drawn(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 16
}

/// Every byte of a record is something else than it should be, sooner or later.
fn garbage(state: &mut u64) -> Vec<u8> {
    let kinds = [1, 2, 3, 6, 7, 8, 224, 225, 226, 227, 228, 229];
    let pieces = drawn(state) as usize % 3;
    let mut record = vec![0; 40 + 16 * pieces];
    record[0] = kinds[drawn(state) as usize % kinds.len()];
    record[2] = pieces as u8;
    record[8] = drawn(state) as u8 % 8;
    record[12] = 1;
    record[24..32].copy_from_slice(&drawn(state).to_le_bytes());
    record[32] = drawn(state) as u8;
    for piece in 0..pieces {
        let (offset, bytes) = (drawn(state) % (1 << 20), drawn(state) % 200);
        record[40 + piece * 16..48 + piece * 16].copy_from_slice(&offset.to_le_bytes());
        record[48 + piece * 16..52 + piece * 16].copy_from_slice(&(bytes as u32).to_le_bytes());
    }
    if drawn(state) % 4 == 0 {
        let at = drawn(state) as usize % record.len();
        record[at] = drawn(state) as u8;
    }
    record
}

/// A connection that must not suffer.
fn honest(of: &mut Loop) -> (One, ObjectId, TcpStream) {
    let mut one = of.session();
    let (listener, address) = of.listener(&mut one, 4);
    let peer = TcpStream::connect(to(address)).unwrap();
    let socket = of.object(&mut one, accept(listener));
    (one, socket, peer)
}

fn is_served(of: &mut Loop, (one, socket, peer): &mut (One, ObjectId, TcpStream)) {
    peer.write_all(b"ping").unwrap();
    assert_eq!(of.ask(one, receive(*socket, 4096, 10)), 4);
    assert_eq!(of.ask(one, send(*socket, 4096, 4)), 4);
    let mut pong = [0; 4];
    peer.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"ping");
}

#[test]
fn garbage_on_the_rings_of_one_session_is_answered_and_others_go_on() {
    let mut of = Loop::new();
    let mut good = honest(&mut of);
    let mut state = 0x1234_5678_9abc_def1;
    for _ in 0..20 {
        let mut bad = of.session();
        for _ in 0..200 {
            let _ = bad.submissions.push(&garbage(&mut state));
            of.sweep(1);
            let _ = bad.take(u64::MAX);
            let noise = drawn(&mut state).to_le_bytes();
            let at = drawn(&mut state) as usize % (support::WINDOW - 8);
            bad.window.copy_in(at, &noise).unwrap();
        }
        is_served(&mut of, &mut good);
        of.end(&bad);
    }
    of.sweep(4);
    assert_eq!(of.budget.used(), 3, "what hostile sessions had is closed");
    let told = of.events.try_iter();
    assert!(told.into_iter().all(|event| matches!(
        event,
        Event::Service(SocketEvent::Refused(..)) | Event::Broken(..)
    )));
}

#[test]
fn a_reset_behind_as_many_bytes_as_the_loop_takes_at_once_is_told_after_them() {
    const AT_ONCE: usize = 64 << 10;
    let mut of = Loop::new();
    let mut one = of.session();
    let (listener, address) = of.listener(&mut one, 4);
    let mut peer = TcpStream::connect(to(address)).unwrap();
    let socket = of.object(&mut one, accept(listener));
    peer.write_all(&[7; AT_ONCE]).unwrap();
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    // A close that does not linger resets also what was not acknowledged yet.
    std::thread::sleep(Duration::from_millis(50));
    drop(peer);
    assert_eq!(of.ask(&mut one, receive(socket, 0, 2 * AT_ONCE)), AT_ONCE as i64);
    let reset = -i64::from(libc::ECONNRESET);
    assert_eq!(of.ask(&mut one, receive(socket, 0, 8)), reset);
    assert_eq!(of.ask(&mut one, receive(socket, 0, 8)), 0, "as the kernel tells it: once");
}

#[test]
fn peers_that_reset_stall_or_leave_half_end_their_own_operations_only() {
    let mut of = Loop::new();
    let mut good = honest(&mut of);
    let mut one = of.session();
    let (listener, address) = of.listener(&mut one, 64);
    let mut waits = Vec::new();
    let mut stalled = Vec::new();
    for turn in 0..30 {
        let peer = TcpStream::connect(to(address)).unwrap();
        let socket = of.object(&mut one, accept(listener));
        match turn % 3 {
            // Resets: unread bytes and a close.
            0 => {
                of.ask(&mut one, send(socket, 0, 8));
                peer.set_nodelay(true).unwrap();
                waits.push((socket, one.submit(receive(socket, 4096, 10))));
                drop(peer);
            }
            // Never reads: what is sent to it waits.
            1 => {
                one.submit(send(socket, 0, support::WINDOW));
                one.submit(send(socket, 0, support::WINDOW));
                one.submit(send(socket, 0, support::WINDOW));
                one.submit(send(socket, 0, support::WINDOW));
                stalled.push(peer);
            }
            // Sends its end, and goes on receiving.
            _ => {
                peer.shutdown(std::net::Shutdown::Write).unwrap();
                waits.push((socket, one.submit(receive(socket, 4096, 10))));
                stalled.push(peer);
            }
        }
        is_served(&mut of, &mut good);
    }
    for (_, tag) in waits {
        let result = of.wait(&mut one, tag).result;
        assert!([0, -i64::from(libc::ECONNRESET)].contains(&result), "{result}");
    }
    is_served(&mut of, &mut good);
    of.end(&one);
    of.sweep(4);
    is_served(&mut of, &mut good);
    assert_eq!(of.budget.used(), 3);
}

#[test]
fn a_session_that_takes_no_completions_keeps_what_it_has_and_no_other_waits() {
    let mut of = Loop::new();
    let mut good = honest(&mut of);
    let mut bad = of.session();
    let (listener, _) = of.listener(&mut bad, 4);
    for _ in 0..2000 {
        let mut record = [0; heliostat_abi::file::delegated::OPERATION_BYTES_MAX];
        let operation = support::plain(OpKind::Address, listener, 0);
        let length =
            support::operation(operation.kind, listener, 0, &[(0, 24)]).encode(&mut record);
        let _ = bad.submissions.push(&record[..length]);
        of.sweep(1);
    }
    is_served(&mut of, &mut good);
}
