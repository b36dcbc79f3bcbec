//! Streams between two ends of this process: bytes, ends, demotion in both directions.

mod support;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use heliostat_abi::code::Native;
use heliostat_abi::stream::channel::direction::SWITCHED;
use heliostat_base::call;
use heliostat_stub_posix::net::{demote, socket};
use support::pair::{direct, End, Listener};
use support::RING_BYTES;

/// Bytes whose order shows.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn bytes_arrive_in_order_through_a_ring_smaller_than_they_are() {
    let (client, server) = direct();
    let bytes = pattern(40 * RING_BYTES as usize);
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || {
        assert_eq!(client.send(&sent, 0), Ok(sent.len()));
        assert!(client.is_direct());
    });
    assert_eq!(server.recv_all().unwrap(), bytes);
    writer.join().unwrap();
}

#[test]
fn a_peek_that_only_counts_throws_nothing_away_that_comes_meanwhile() {
    const ROUNDS: u32 = 50_000;
    let (client, server) = direct();
    let turn = AtomicU32::new(0);
    let mut lost = None;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                while turn.load(Acquire) < round {
                    std::hint::spin_loop();
                }
                let _ = client.send(b"x", libc::MSG_DONTWAIT);
            }
        });
        let flags = libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_DONTWAIT;
        for round in 1..=ROUNDS {
            turn.store(round, Release);
            while server.recv(&mut [0; 4], flags) != Ok(1) {}
            let taken = server.recv(&mut [0; 4], libc::MSG_DONTWAIT);
            if taken != Ok(1) {
                lost = Some(round);
                break;
            }
        }
        turn.store(ROUNDS, Release);
    });
    assert_eq!(lost, None, "in this round");
}

#[test]
fn a_slow_reader_wakes_a_writer_that_sleeps_for_room_every_time() {
    let (client, server) = direct();
    let bytes = pattern(8 * RING_BYTES as usize);
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || client.send(&sent, 0).map(|count| count == sent.len()));
    let (mut all, mut piece) = (Vec::new(), vec![0; RING_BYTES as usize / 2]);
    while all.len() < bytes.len() {
        std::thread::sleep(Duration::from_millis(2));
        let count = server.recv(&mut piece, 0).unwrap();
        all.extend_from_slice(&piece[..count]);
    }
    assert_eq!(all, bytes);
    assert_eq!(writer.join().unwrap(), Ok(true));
}

#[test]
fn a_half_closed_peer_still_reads_what_a_sleeping_writer_sends() {
    let (client, server) = direct();
    client.shutdown(libc::SHUT_WR);
    let bytes = pattern(6 * RING_BYTES as usize);
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || {
        let before = thread_cpu();
        assert_eq!(server.recv(&mut [0; 8], 0), Ok(0));
        assert_eq!(server.send(&sent, 0), Ok(sent.len()));
        thread_cpu() - before
    });
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(client.recv_all().unwrap(), bytes);
    // The writer slept nearly all of the 300 ms; a busy one would have used them up.
    assert!(writer.join().unwrap() < Duration::from_millis(150));
}

fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is one writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn a_closed_end_gives_its_last_bytes_and_then_the_end() {
    let (client, server) = direct();
    assert_eq!(client.send(b"last words", 0), Ok(10));
    drop(client);
    assert_eq!(server.recv_all().unwrap(), b"last words");
}

#[test]
fn closing_with_unread_bytes_is_a_reset_for_the_other_end() {
    let (client, server) = direct();
    assert_eq!(client.send(b"never read", 0), Ok(10));
    drop(server);
    assert_eq!(client.recv(&mut [0; 4], 0), Err(libc::ECONNRESET));
}

/// Leaves the direct path at one end while the other is in the middle of a transfer.
fn leave_in_the_middle(reason: Native, reader_leaves: bool) {
    let (client, server) = direct();
    let bytes = pattern(30 * RING_BYTES as usize);
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || {
        for (turn, piece) in sent.chunks(5000).enumerate() {
            if turn == 20 && !reader_leaves {
                demote::leave(client.fd, client.index(), reason);
            }
            let mut rest = piece;
            while !rest.is_empty() {
                rest = &rest[client.send(rest, 0).unwrap()..];
            }
        }
        client
    });
    let (mut all, mut piece) = (Vec::new(), vec![0; 3000]);
    while all.len() < bytes.len() {
        if all.len() > bytes.len() / 2 && server.is_direct() && reader_leaves {
            demote::leave(server.fd, server.index(), reason);
        }
        let count = server.recv(&mut piece, 0).unwrap();
        assert!(count > 0, "an early end after {} bytes", all.len());
        all.extend_from_slice(&piece[..count]);
    }
    assert_eq!(all, bytes);
    let client = writer.join().unwrap();
    // One message each way, and both ends have met the other's switch.
    say(&server, &client, b"back");
}

fn say(from: &End, to: &End, words: &[u8]) {
    let mut heard = vec![0; words.len()];
    assert_eq!(from.send(words, 0), Ok(words.len()));
    assert_eq!(to.recv(&mut heard, libc::MSG_WAITALL), Ok(words.len()));
    assert_eq!(to.send(words, 0), Ok(words.len()));
    assert_eq!(from.recv(&mut heard, libc::MSG_WAITALL), Ok(words.len()));
    assert!(heard == words && !from.is_direct() && !to.is_direct());
}

#[test]
fn a_writer_that_leaves_loses_and_doubles_no_byte() {
    leave_in_the_middle(Native::Call, false);
}

#[test]
fn a_reader_that_leaves_loses_and_doubles_no_byte() {
    leave_in_the_middle(Native::Call, true);
}

#[test]
fn a_reader_that_hands_its_socket_away_loses_and_doubles_no_byte() {
    leave_in_the_middle(Native::Passed, true);
}

#[test]
fn an_offer_nobody_takes_goes_out_on_the_kernels_path_with_its_half_close() {
    let listener = Listener::new();
    let client = listener.connect();
    assert_eq!(client.send(b"request", 0), Ok(7));
    client.shutdown(libc::SHUT_WR);
    // The other side accepts without a stub, and answers only after the end of the request.
    let (native, _) = listener.accept_natively();
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut native, mut all) = (native, Vec::new());
        native.read_to_end(&mut all).unwrap();
        native.write_all(b"answer").unwrap();
        all
    });
    assert_eq!(client.recv_all().unwrap(), b"answer");
    assert_eq!(server.join().unwrap(), b"request");
    assert!(!client.is_direct());
}

#[test]
fn a_bell_that_its_peer_has_counted_and_never_rung_is_not_payload() {
    let (client, server) = direct();
    server.set_timeouts(Duration::from_secs(1));
    assert_eq!(client.send(b"begun", 0), Ok(5));
    assert_eq!(server.recv(&mut [0; 5], 0), Ok(5));
    // As by a client that is stopped in the middle of its switch.
    let outgoing = socket::at(client.index()).stream().unwrap().outgoing;
    outgoing.count_bell();
    outgoing.raise(SWITCHED);
    let mut heard = [0; 8];
    assert_eq!(server.recv(&mut heard, 0), Err(libc::EAGAIN), "its time is over");
    call::send(client.fd, b"\0payload", libc::MSG_NOSIGNAL).unwrap();
    assert_eq!(server.recv(&mut heard, 0), Ok(7));
    assert_eq!(&heard[..7], b"payload");
}
