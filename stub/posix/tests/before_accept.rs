//! A connection before both ends know that they share rings: what goes over the shadow, and where
//! it ends.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use heliostat_abi::code::Native;
use heliostat_abi::limits::UNDECIDED_MS;
use heliostat_abi::stream::channel::{direction, slot, slot_offset};
use heliostat_base::sys::Errno;
use heliostat_stub_posix::event::poll;
use heliostat_stub_posix::net::socket::Stage;
use heliostat_stub_posix::net::{accept, demote, socket};
use support::pair::{End, Listener};

fn stage(end: &End) -> Stage {
    socket::at(end.index()).stage()
}

/// What lies on the shadow of an end, as the kernel says.
fn on_shadow(end: &End) -> usize {
    heliostat_base::call::bytes_queued(end.fd).unwrap()
}

#[test]
fn an_offer_is_found_that_is_put_while_the_acceptor_looks_for_it() {
    let listener = Listener::new();
    for round in 0..500 {
        let halfway = listener.connect_halfway();
        let server = listener.accept();
        let client = std::thread::spawn(|| halfway.end());
        while stage(&server) == Stage::Undecided {
            accept::decide(server.fd, server.index(), None);
            std::thread::yield_now();
        }
        let client = client.join().unwrap();
        assert!(client.is_direct() && server.is_direct(), "round {round}");
    }
}

#[test]
fn what_is_sent_before_the_claim_is_read_before_the_ring_in_one_call() {
    let listener = Listener::new();
    let client = listener.connect();
    assert_eq!(client.send(b"one ", 0), Ok(4));
    let server = listener.accept();
    assert_eq!(stage(&client), Stage::Offered);
    assert_eq!(client.send(b"two", 0), Ok(3));
    let with_secret = 4 + slot::SECRET_BYTES;
    assert_eq!((stage(&client), on_shadow(&server)), (Stage::Started, with_secret));
    let mut got = [0; 16];
    assert_eq!(server.recv(&mut got, libc::MSG_PEEK), Ok(7));
    assert_eq!(server.recv(&mut got[..2], 0), Ok(2));
    assert_eq!(server.recv(&mut got[2..], 0), Ok(5));
    assert_eq!((&got[..7], stage(&server)), (&b"one two"[..], Stage::Settled));
    assert!(client.is_direct() && server.is_direct());
}

#[test]
fn a_server_that_speaks_first_speaks_on_the_shadow_until_the_client_has_proven_its_offer() {
    let listener = Listener::new();
    let client = listener.connect();
    let server = listener.accept();
    let mut got = [0; 32];
    for (word, stages) in [
        (b"one", (Stage::Offered, Stage::Accepted)),
        // What came makes the reader begin its ring, and tell the secret.
        (b"two", (Stage::Started, Stage::Accepted)),
        (b"six", (Stage::Settled, Stage::Settled)),
    ] {
        assert_eq!(server.send(word, 0), Ok(3));
        assert_eq!(client.recv(&mut got, 0), Ok(3));
        assert_eq!((&got[..3], stage(&client), stage(&server)), (&word[..], stages.0, stages.1));
    }
    assert!(client.is_direct() && server.is_direct());
}

#[test]
fn an_undecided_server_speaks_and_is_direct_when_the_offer_is_there() {
    let listener = Listener::new();
    let halfway = listener.connect_halfway();
    let server = listener.accept();
    assert_eq!((stage(&server), server.send(b"hello ", 0)), (Stage::Undecided, Ok(6)));
    let client = halfway.end();
    let mut got = [0; 32];
    assert_eq!((client.recv(&mut got, 0), stage(&client)), (Ok(6), Stage::Offered));
    assert_eq!(server.send(b"again", 0), Ok(5));
    assert_eq!(stage(&server), Stage::Accepted);
    assert_eq!(client.recv(&mut got[6..], 0), Ok(5));
    assert_eq!(client.send(b"answer", 0), Ok(6));
    assert_eq!((server.recv(&mut [0; 8], 0), &got[..11]), (Ok(6), &b"hello again"[..]));
    assert_eq!(server.send(b"ring", 0), Ok(4));
    assert_eq!((client.recv(&mut got, 0), stage(&client)), (Ok(4), Stage::Settled));
    assert!(client.is_direct() && server.is_direct());
}

#[test]
fn a_read_of_nothing_is_no_end_while_the_shadow_is_read() {
    let listener = Listener::new();
    let client = listener.connect();
    assert_eq!(client.send(b"before", 0), Ok(6));
    let server = listener.accept();
    assert_eq!(server.recv(&mut [], 0), Ok(0));
    assert_eq!(client.send(b"ring", 0), Ok(4));
    assert_eq!(server.recv(&mut [0; 16], 0), Ok(10));
    assert_eq!(server.recv(&mut [0; 16], libc::MSG_DONTWAIT), Err(libc::EAGAIN));
}

#[test]
fn bells_behind_the_prefix_never_reach_the_program() {
    let listener = Listener::new();
    let client = listener.connect();
    assert_eq!(client.send(b"before", 0), Ok(6));
    let server = listener.accept();
    assert_eq!(server.recv(&mut [0; 6], 0), Ok(6));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut all = [0; 6];
            server.recv(&mut all, libc::MSG_WAITALL).map(|count| (count, all))
        });
        for byte in b"behind" {
            // The reader sleeps each time: each byte comes with a bell.
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert_eq!(client.send(&[*byte], 0), Ok(1));
        }
        assert_eq!(reader.join().unwrap(), Ok((6, *b"behind")));
    });
}

#[test]
fn an_end_before_the_claim_is_the_kernels_own() {
    let listener = Listener::new();
    for how in [libc::SHUT_WR, libc::SHUT_RDWR] {
        let client = listener.connect();
        assert_eq!(client.send(b"last words", 0), Ok(10));
        client.shutdown(how);
        assert!(!client.is_direct());
        let server = listener.accept();
        assert_eq!(server.recv_all().unwrap(), b"last words");
        assert!(!server.is_direct());
    }
}

#[test]
fn a_claim_is_given_up_without_a_byte_lost_while_neither_ring_is_begun() {
    let listener = Listener::new();
    let client = listener.connect();
    assert_eq!(client.send(b"head, ", 0), Ok(6));
    let server = listener.accept();
    assert_eq!(server.recv(&mut [0; 2], 0), Ok(2));
    demote::leave(server.fd, server.index(), Native::Passed);
    assert!(!server.is_direct());
    assert_eq!(client.send(b"rest", 0), Ok(4));
    assert!(!client.is_direct());
    let mut rest = [0; 8];
    assert_eq!(server.recv(&mut rest, libc::MSG_WAITALL), Ok(8));
    assert_eq!(&rest, b"ad, rest");
}

#[test]
fn an_accept_beside_a_client_that_stays_in_connect_is_native_when_it_answers() {
    let listener = Listener::new();
    let first = listener.connect();
    let _first = listener.accept();
    let channel = socket::at(first.index()).stream().unwrap().slot.channel;
    let stuck = channel.take_slot().expect("one of many");
    let mut plain = TcpStream::connect(("127.0.0.1", listener.port())).unwrap();
    let server = listener.accept();
    assert_eq!(stage(&server), Stage::Undecided);
    plain.write_all(b"ask").unwrap();
    let mut asked = [0; 3];
    assert_eq!(server.recv(&mut asked, 0), Ok(3));
    assert_eq!((&asked, stage(&server)), (b"ask", Stage::Undecided));
    assert_eq!(server.send(b"answer", 0), Ok(6));
    assert_eq!(stage(&server), Stage::Undecided);
    let mut answer = [0; 6];
    plain.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
    // Nobody waits for ever, for whomever.
    std::thread::sleep(Duration::from_millis(UNDECIDED_MS + 1));
    assert_eq!(server.send(b"answer", 0), Ok(6));
    assert!(socket::at(server.index()).is_native());
    stuck.abandon();
}

#[test]
fn a_prefix_that_contradicts_what_was_sent_proves_nothing() {
    let listener = Listener::new();
    let client = listener.connect();
    assert_eq!(client.send(b"before", 0), Ok(6));
    let server = listener.accept();
    assert_eq!(server.recv(&mut [0; 4], 0), Ok(4));
    let channel = socket::at(client.index()).stream().unwrap().slot.channel;
    let memory = support::control().channel(channel.entry.id.index);
    assert_eq!(client.send(b"ring", 0), Ok(4));
    let lane = slot_offset(0) + slot::DIRECTION[0];
    assert_eq!(memory.atomic_u64(lane + direction::PREFIX).swap(2, SeqCst), 6);
    let mut rest = [0; 2];
    assert_eq!(server.recv(&mut rest, 0), Ok(2));
    assert_eq!((&rest, server.is_direct()), (b"re", false));
}

#[test]
fn a_client_that_only_waits_hears_of_the_end_of_who_claimed_it() {
    let listener = Listener::new();
    let client = listener.connect();
    let server = listener.accept();
    let poll = |timeout_ns| {
        let events = libc::POLLIN | libc::POLLRDHUP;
        let mut fds = [libc::pollfd { fd: client.fd, events, revents: 0 }];
        let found = heliostat_stub_posix::event::poll::poll(&mut fds, Some(timeout_ns), None);
        (found, fds[0].revents)
    };
    assert_eq!((stage(&client), poll(0)), (Stage::Offered, (Some(Ok(0)), 0)));
    // As when its process is killed: the kernel ends the shadow, and nobody raises a flag.
    heliostat_base::call::shutdown(server.fd, libc::SHUT_RDWR).unwrap();
    let ended = libc::POLLIN | libc::POLLRDHUP;
    assert_eq!(poll(30_000_000_000), (Some(Ok(1)), ended));
    assert_eq!((client.is_direct(), client.recv(&mut [0; 1], 0)), (false, Ok(0)));
}

/// poll(2) for bytes of one end, for at most so long.
fn poll_in(end: &End, limit: Duration) -> Option<Result<usize, Errno>> {
    let mut fds = [libc::pollfd { fd: end.fd, events: libc::POLLIN, revents: 0 }];
    poll::poll(&mut fds, Some(limit.as_nanos() as u64), None)
}

#[test]
fn an_offer_is_not_claimed_while_a_poll_sleeps_that_would_hear_no_bell() {
    let listener = Listener::new();
    let halfway = listener.connect_halfway();
    let server = listener.accept();
    assert_eq!(stage(&server), Stage::Undecided);
    std::thread::scope(|scope| {
        let poller = scope.spawn(|| poll_in(&server, Duration::from_secs(20)));
        let is_asleep = || socket::at(server.index()).sleepers.load(SeqCst) > 0;
        while !is_asleep() {
            std::thread::yield_now();
        }
        let client = halfway.end();
        // As an accept on another thread looks for it.
        accept::decide(server.fd, server.index(), None);
        assert_eq!(stage(&server), Stage::Undecided);
        assert_eq!(client.send(b"one", 0), Ok(3));
        assert_eq!(poller.join().unwrap(), Some(Ok(1)));
        assert!(!is_asleep());
        let mut got = [0; 8];
        assert_eq!(server.recv(&mut got, 0), Ok(3));
        assert!(client.is_direct() && server.is_direct());
    });
}
