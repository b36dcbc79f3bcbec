//! A connection whose descriptor goes where no stub is: beside a peer that makes no call it is the
//! kernel's at once, as the same socket, and no byte is lost, doubled or out of order.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use heliostat_abi::code::Native;
use heliostat_abi::limits::CHANNELS_PER_PAIR_MAX;
use heliostat_abi::stream::channel::direction::{SWITCHED, TAKEN_BACK};
use heliostat_base::call;
use heliostat_stub_posix::net::patience::Account;
use heliostat_stub_posix::net::{demote, socket};
use support::pair::{direct, End, Listener};
use support::RING_BYTES;

fn pass(end: &End) {
    demote::leave(end.fd, end.index(), Native::Passed);
    assert!(!end.is_direct());
}

/// Which socket of the kernel a descriptor is.
fn socket_of(end: &End) -> std::path::PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", end.fd)).unwrap()
}

/// What a program without a stub reads of a connection, up to `count` bytes or its end.
fn read_natively(end: &End, count: usize) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    while all.len() < count {
        let room = piece.len().min(count - all.len());
        match call::recv(end.fd, &mut piece[..room], 0).unwrap() {
            0 => break,
            count => all.extend_from_slice(&piece[..count]),
        }
    }
    all
}

fn say(from: &End, to: &End, words: &[u8]) {
    let mut heard = vec![0; words.len()];
    assert_eq!(from.send(words, 0), Ok(words.len()));
    assert_eq!(to.recv(&mut heard, libc::MSG_WAITALL), Ok(words.len()));
    assert_eq!(heard, words);
}

#[test]
fn a_peer_that_makes_no_call_is_not_waited_for_and_the_socket_stays_itself() {
    let (client, server) = direct();
    say(&client, &server, b"ask");
    say(&server, &client, b"answer");
    let before = socket_of(&server);
    pass(&server);
    assert_eq!(socket_of(&server), before);
    call::send(server.fd, b"native", 0).unwrap();
    // It hears of it now, at its first call.
    assert_eq!(client.send(b"goes on", 0), Ok(7));
    assert_eq!(read_natively(&server, 7), b"goes on");
    let mut heard = [0; 6];
    assert_eq!(client.recv(&mut heard, libc::MSG_WAITALL), Ok(6));
    assert_eq!((&heard, client.is_direct()), (b"native", false));
}

#[test]
fn a_client_beside_a_silent_acceptor_is_passed_as_it_is() {
    let (client, server) = direct();
    let before = socket_of(&client);
    pass(&client);
    assert_eq!(socket_of(&client), before);
    assert_eq!(server.send(b"to the kernel's reader", 0), Ok(22));
    assert_eq!(read_natively(&client, 22), b"to the kernel's reader");
}

#[test]
fn what_the_silent_peer_has_not_read_comes_before_what_follows_natively() {
    let (client, server) = direct();
    assert_eq!(server.send(b"from the ring, ", 0), Ok(15));
    pass(&server);
    call::send(server.fd, b"from the shadow", 0).unwrap();
    let mut heard = [0; 30];
    assert_eq!(client.recv(&mut heard, libc::MSG_WAITALL), Ok(30));
    assert_eq!(&heard, b"from the ring, from the shadow");
}

#[test]
fn the_end_of_a_peer_that_was_silent_is_an_end_for_who_reads_natively() {
    for how in ["shutdown", "close"] {
        let (client, server) = direct();
        say(&client, &server, b"ask");
        pass(&server);
        match how {
            "shutdown" => client.shutdown(libc::SHUT_WR),
            _ => drop(client),
        }
        assert_eq!(read_natively(&server, 1), b"", "{how}");
    }
}

#[test]
fn bytes_held_back_reach_who_reads_natively_when_they_are_pushed() {
    let (client, server) = direct();
    pass(&server);
    assert_eq!(client.send(b"head ", libc::MSG_MORE), Ok(5));
    assert_eq!(client.send(b"body", 0), Ok(4));
    assert_eq!(read_natively(&server, 9), b"head body");
}

#[test]
fn a_peer_asleep_in_a_read_takes_back_what_is_unread() {
    let (client, server) = direct();
    assert_eq!(client.send(b"unread", 0), Ok(6));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| client.recv(&mut [0; 8], 0));
        std::thread::sleep(std::time::Duration::from_millis(20));
        pass(&server);
        assert_eq!(read_natively(&server, 6), b"unread");
        call::send(server.fd, b"x", 0).unwrap();
        assert_eq!(reader.join().unwrap(), Ok(1));
    });
}

#[test]
fn a_prefix_that_nobody_has_read_is_passed_with_its_socket() {
    let listener = Listener::new();
    let client = listener.connect();
    assert_eq!(client.send(b"head, ", 0), Ok(6));
    let server = listener.accept();
    assert_eq!(server.send(b"hello", 0), Ok(5));
    let before = socket_of(&server);
    pass(&server);
    assert_eq!(socket_of(&server), before);
    assert_eq!(client.send(b"rest", 0), Ok(4));
    assert_eq!(read_natively(&server, 10), b"head, rest");
    call::send(server.fd, b" again", 0).unwrap();
    let mut heard = [0; 11];
    assert_eq!(client.recv(&mut heard, libc::MSG_WAITALL), Ok(11));
    assert_eq!(&heard, b"hello again");
}

#[test]
fn a_prefix_in_front_of_a_begun_ring_is_passed_with_all_that_follows() {
    let listener = Listener::new();
    let client = listener.connect();
    assert_eq!(client.send(b"prefix, ", 0), Ok(8));
    let server = listener.accept();
    assert_eq!(client.send(b"ring, ", 0), Ok(6));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| client.recv(&mut [0; 8], 0));
        std::thread::sleep(std::time::Duration::from_millis(20));
        pass(&server);
        assert_eq!(read_natively(&server, 14), b"prefix, ring, ");
        call::send(server.fd, b"x", 0).unwrap();
        assert_eq!(reader.join().unwrap(), Ok(1));
    });
}

/// A writer that never stops, and an end that is passed at some moment of it.
fn pass_in_the_middle(turn: usize, length: usize) {
    let (client, server) = direct();
    let bytes: Vec<u8> = (0..40 * RING_BYTES as usize).map(|i| (i * 7 + i / 251) as u8).collect();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || {
        for piece in sent.chunks(length) {
            assert_eq!(client.send(piece, 0), Ok(piece.len()));
        }
    });
    let (mut all, mut piece) = (Vec::new(), vec![0; 3000]);
    while all.len() < turn * 997 {
        let count = server.recv(&mut piece, 0).unwrap();
        all.extend_from_slice(&piece[..count]);
    }
    pass(&server);
    all.extend(read_natively(&server, bytes.len() - all.len()));
    assert!(all == bytes, "passed after {} bytes", turn * 997);
    writer.join().unwrap();
}

#[test]
fn an_end_that_is_passed_while_the_peer_writes_gets_every_byte_once() {
    for turn in 0..60 {
        pass_in_the_middle(turn * 5, 1 + turn * 37);
    }
}

/// Passes an end while its peer's writer says that it takes back what is unread, and stops there. None
/// where the end had given up before the writer looked, as on a busy machine.
fn pass_beside_a_stopped_writer() -> Option<(End, End)> {
    let (client, server) = direct();
    say(&client, &server, b"ask");
    say(&server, &client, b"answer");
    assert_eq!(client.send(b"unread", 0), Ok(6));
    let lane = socket::at(client.index()).stream().expect("it is direct").outgoing;
    let is_passed = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        let writer = scope.spawn(|| loop {
            if lane.accept_want().is_some() {
                return true;
            }
            if is_passed.load(Ordering::Acquire) {
                return false;
            }
        });
        pass(&server);
        is_passed.store(true, Ordering::Release);
        writer.join().unwrap()
    });
    said.then_some((client, server))
}

#[test]
fn a_peer_that_says_it_takes_back_and_does_so_late_holds_up_nobody_and_loses_nothing() {
    let (client, server) = (0..100).find_map(|_| pass_beside_a_stopped_writer()).unwrap();
    // Its writer was stopped in the middle, as the kernel may do to anybody, and goes on now.
    let lane = socket::at(client.index()).stream().expect("it is direct").outgoing;
    lane.raise(SWITCHED | TAKEN_BACK);
    call::send(client.fd, b"unread, and more", libc::MSG_NOSIGNAL).unwrap();
    assert_eq!(read_natively(&server, 16), b"unread, and more");
}

#[test]
fn a_user_whose_peer_lets_one_wait_in_vain_is_not_waited_for_again_soon() {
    let (client, server) = direct();
    say(&client, &server, b"ask");
    say(&server, &client, b"answer");
    assert_eq!(client.send(b"unread", 0), Ok(6));
    let account = Account::of_peer(&socket::at(server.index()).stream().expect("it is direct"));
    pass(&server);
    assert!(!account.allows_wait());
    assert_eq!(read_natively(&server, 6), b"unread");
}

/// More than one client can have direct to one address at a time.
const CONNECTIONS: usize = CHANNELS_PER_PAIR_MAX * 4 + 20;

#[test]
fn connections_that_were_passed_and_have_ended_leave_their_slots() {
    let listener = Listener::new();
    for turn in 0..CONNECTIONS {
        let (client, server) = (listener.connect(), listener.accept());
        assert!(client.is_direct() && server.is_direct(), "connection {turn}");
        say(&client, &server, b"ask");
        say(&server, &client, b"answer");
        let (passed, other) = if turn % 2 == 0 { (&client, &server) } else { (&server, &client) };
        pass(passed);
        assert_eq!(other.send(b"native", 0), Ok(6));
        assert_eq!(read_natively(passed, 6), b"native");
        // One of both may close first, or hear first that the other one is the kernel's.
        match turn % 3 {
            0 => assert_eq!(other.recv(&mut [0; 4], libc::MSG_DONTWAIT), Err(libc::EAGAIN)),
            1 => drop(client),
            _ => drop(server),
        }
    }
}
