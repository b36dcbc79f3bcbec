//! Ends that several processes hold after a fork: nothing that the peer writes makes them wait, and
//! nothing that one of them does keeps the others from the stream.

mod support;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::code::Native;
use heliostat_abi::stream::channel::{self, direction, slot};
use heliostat_base::call;
use heliostat_base::mapping::SharedMapping;
use heliostat_stub_posix::net::{demote, side_lock, socket};
use heliostat_stub_posix::process;
use support::child::{forked, kill, waited};
use support::pair::{direct, End};

/// Offsets in a lane that once held the locks of its two sides, and belong to nobody now.
const RESERVED: [usize; 2] = [64, 192];
const PIECE: usize = 5000;

/// As after a fork, without the other process.
fn share(end: &End) {
    assert!(side_lock::prepare());
    end.take_shared_locks();
}

/// The memory that both ends of a stream lie in.
fn memory_of(end: &End) -> Arc<SharedMapping> {
    let stream = socket::at(end.index()).stream().expect("it is direct");
    support::control().channel(stream.slot.channel.entry.id.index)
}

/// The words at an offset of every lane of every slot.
fn words(memory: &SharedMapping, at: usize) -> Vec<&AtomicU32> {
    let lanes =
        (0..4).flat_map(|index| slot::DIRECTION.map(|lane| channel::slot_offset(index) + lane));
    lanes.map(|lane| memory.atomic_u32(lane + at)).collect()
}

fn say(from: &End, to: &End, words: &[u8]) {
    let mut heard = vec![0; words.len()];
    assert_eq!(from.send(words, 0), Ok(words.len()));
    assert_eq!(to.recv(&mut heard, libc::MSG_WAITALL), Ok(words.len()));
    assert_eq!(heard, words);
}

#[test]
fn words_that_a_peer_writes_take_no_lock() {
    let (client, server) = direct();
    let memory = memory_of(&client);
    share(&client);
    share(&server);
    // Threads that live for as long as this test: nobody could say that they are gone.
    let living = [std::process::id(), 1];
    for (turn, at) in RESERVED.into_iter().cycle().take(20).enumerate() {
        let words = words(&memory, at);
        words.iter().for_each(|word| word.store(living[turn % 2], SeqCst));
        say(&client, &server, b"ask");
        say(&server, &client, b"answer");
        assert!(words.iter().all(|word| word.load(SeqCst) == living[turn % 2]));
    }
    assert!(client.is_direct() && server.is_direct());
}

#[test]
fn a_switch_beside_a_wish_that_is_not_the_readers_holds_up_no_call() {
    let (client, server) = direct();
    share(&server);
    assert_eq!(client.send(b"unread", 0), Ok(6));
    let lane = socket::at(client.index()).stream().expect("it is direct").outgoing;
    lane.want_native(); // as the client writes it, in the name of the reader
    lane.raise(direction::SWITCHED);
    assert_eq!(server.recv(&mut [0; 16], libc::MSG_DONTWAIT), Err(libc::EAGAIN));
    lane.retract_want();
    assert_eq!(server.recv(&mut [0; 16], libc::MSG_DONTWAIT), Ok(6));
}

#[test]
fn a_read_that_waits_beside_such_a_wish_ends_with_its_time() {
    let (client, server) = direct();
    share(&server);
    server.set_timeouts(Duration::from_millis(50));
    assert_eq!(client.send(b"unread", 0), Ok(6));
    let lane = socket::at(client.index()).stream().expect("it is direct").outgoing;
    lane.want_native();
    assert_eq!(server.recv(&mut [0; 16], 0), Err(libc::EAGAIN));
    lane.retract_want();
    assert_eq!(server.recv(&mut [0; 16], 0), Ok(6));
}

/// Sends pieces of one letter each until it is killed, or so many.
fn send_pieces(end: &End, letter: u8, count: usize) -> bool {
    (0..count).all(|_| end.send(&[letter; PIECE], 0) == Ok(PIECE))
}

/// What comes in until every end of the other side is gone: each letter's bytes.
fn count_letters(end: &End) -> [usize; 256] {
    let (mut counts, mut piece) = ([0; 256], vec![0; 64 * 1024]);
    loop {
        match end.recv(&mut piece, 0).expect("no error") {
            0 => return counts,
            bytes => piece[..bytes].iter().for_each(|byte| counts[*byte as usize] += 1),
        }
    }
}

#[test]
fn a_sibling_that_is_killed_in_the_middle_keeps_nobody_from_the_stream() {
    const PIECES: usize = 2000;
    let (client, server) = direct();
    process::before_fork();
    let child = forked(|| {
        process::in_forked_child();
        send_pieces(&client, b'c', usize::MAX)
    });
    let counts = std::thread::scope(|scope| {
        let reader = scope.spawn(|| count_letters(&server));
        std::thread::sleep(Duration::from_millis(30));
        kill(child, libc::SIGKILL);
        assert!(libc::WIFSIGNALED(waited(child)));
        assert!(send_pieces(&client, b'p', PIECES));
        client.shutdown(libc::SHUT_WR);
        reader.join().expect("all was read")
    });
    assert_eq!(counts[usize::from(b'p')], PIECES * PIECE);
    assert!(counts[usize::from(b'c')] > 0);
}

#[test]
fn siblings_write_whole_pieces_each() {
    const PIECES: usize = 300;
    let (client, server) = direct();
    process::before_fork();
    let children: Vec<i32> = [b'a', b'b']
        .map(|letter| {
            forked(|| {
                process::in_forked_child();
                send_pieces(&client, letter, PIECES)
            })
        })
        .into();
    let counts = std::thread::scope(|scope| {
        let reader = scope.spawn(|| count_letters(&server));
        children.iter().for_each(|child| assert_eq!(waited(*child), 0));
        client.shutdown(libc::SHUT_WR);
        reader.join().expect("all was read")
    });
    for letter in [b'a', b'b'] {
        assert_eq!(counts[usize::from(letter)], PIECES * PIECE);
    }
}

/// In the child of a fork: closes an end that it holds with its parent, once that says so.
fn close_when_told(end: &End, told: i32) -> bool {
    process::in_forked_child();
    let is_told = call::recv(told, &mut [0], 0) == Ok(1);
    process::closing(end.fd);
    is_told && call::close(end.fd).is_ok()
}

#[test]
fn the_last_sibling_to_close_ends_no_connection_that_another_has_passed_on() {
    let (client, server) = direct();
    assert_eq!(client.send(b"unread", 0), Ok(6));
    let (told, teller) = call::local_pair().unwrap();
    process::before_fork();
    let child = forked(|| close_when_told(&server, told));
    let heard = std::thread::scope(|scope| {
        let reader = scope.spawn(|| client.recv_all());
        demote::leave(server.fd, server.index(), Native::Passed);
        // As a message holds it (SCM_RIGHTS), or a program that knows nothing of the stub.
        let passed = call::fcntl(server.fd, libc::F_DUPFD_CLOEXEC, 0).unwrap() as i32;
        drop(server);
        assert_eq!(call::send(teller, &[1], 0), Ok(1));
        assert_eq!(waited(child), 0);
        let mut unread = [0; 16];
        assert_eq!(call::recv(passed, &mut unread, 0), Ok(6));
        assert_eq!(call::send(passed, &unread[..6], 0), Ok(6));
        call::close(passed).unwrap();
        reader.join().unwrap()
    });
    assert_eq!(heard, Ok(b"unread".to_vec()));
}
