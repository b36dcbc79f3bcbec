//! splice(2) into a direct stream that does not wait: what the pipe had room for in the ring, and no more.

mod support;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use heliostat_abi::stream::channel::{self, direction, slot};
use heliostat_base::call;
use heliostat_stub_posix::net::socket;
use heliostat_stub_posix::splice;
use support::pair::{direct, End};
use support::RING_BYTES;

const PIPE_BYTES: usize = 64 * 1024;

/// The reading end of a pipe that is full, and its writing end.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let mut fds = [0; 2];
    // SAFETY: two live words; the fresh descriptors are nobody else's.
    let (out, into) = unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))
    };
    let bytes: Vec<u8> = (0..PIPE_BYTES).map(|at| (at / 256) as u8).collect();
    let parts = [std::io::IoSlice::new(&bytes)];
    assert_eq!(call::writev(into.as_raw_fd(), &parts), Ok(PIPE_BYTES));
    (out, into)
}

fn splice_without_waiting(pipe: &OwnedFd, end: &End) -> Result<usize, i32> {
    call::fcntl(end.fd, libc::F_SETFL, (libc::O_RDWR | libc::O_NONBLOCK) as usize).unwrap();
    socket::at(end.index()).nonblocking.store(true, std::sync::atomic::Ordering::SeqCst);
    let flags = libc::SPLICE_F_NONBLOCK;
    let answer = splice::to_socket(pipe.as_raw_fd(), end.fd, end.index(), PIPE_BYTES, flags);
    answer.expect("the stream is direct").map_err(|errno| errno.0)
}

fn begun() -> (End, End) {
    let (client, server) = direct();
    for (from, to) in [(&client, &server), (&server, &client)] {
        assert_eq!(from.send(b"x", 0), Ok(1));
        assert_eq!(to.recv(&mut [0; 2], 0), Ok(1));
    }
    (client, server)
}

#[test]
fn a_splice_that_does_not_wait_moves_what_there_is_room_for_beside_a_silent_reader() {
    let ((client, server), (out, _into)) = (begun(), full_pipe());
    let ring = RING_BYTES as usize;
    assert_eq!(splice_without_waiting(&out, &server), Ok(ring));
    assert_eq!(splice_without_waiting(&out, &server), Err(libc::EAGAIN));
    assert_eq!(call::bytes_queued(out.as_raw_fd()), Ok(PIPE_BYTES - ring));
    let mut heard = vec![0; ring];
    assert_eq!(client.recv(&mut heard, libc::MSG_WAITALL), Ok(ring));
    assert!(heard.iter().enumerate().all(|(at, byte)| *byte == (at / 256) as u8));
}

#[test]
fn a_reader_that_takes_its_room_back_ends_the_connection() {
    let ((_client, server), (out, _into)) = (begun(), full_pipe());
    let stream = socket::at(server.index()).stream().unwrap();
    let memory = support::control().channel(stream.slot.channel.entry.id.index);
    let (_, index, _) = stream.slot.name();
    let head =
        memory.atomic_u64(channel::slot_offset(index) + slot::DIRECTION[1] + direction::HEAD);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let tail = stream.outgoing.tail();
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Now nothing is read of a full ring, and now all of it.
            while !stop.load(relaxed) {
                head.store(tail.wrapping_sub(u64::from(RING_BYTES)), relaxed);
                head.store(tail, relaxed);
            }
        });
        let answers = (0..10_000).map(|_| splice_without_waiting(&out, &server));
        let answer = answers.into_iter().find(|answer| *answer != Err(libc::EAGAIN));
        stop.store(true, relaxed);
        answer
    });
    // Whichever of both the call met, it came back.
    let ring = RING_BYTES as usize;
    assert!(
        matches!(answer, Some(Err(libc::ECONNRESET | libc::EPIPE))) || answer == Some(Ok(ring))
    );
}
