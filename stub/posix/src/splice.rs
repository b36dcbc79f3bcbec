//! splice(2) between a direct stream and a pipe, by copying.
//!
//! The kernel would move pages; a direct stream has none of its own. What can be seen is kept:
//! blocking, partial counts, the end of the stream.

use std::io::{IoSlice, IoSliceMut};

use heliostat_base::call;
use heliostat_base::sys::Errno;

use crate::event::poll;
use crate::net::receive::{self, Received};
use crate::net::socket::{self, Connection, Stream};
use crate::net::{end, send};
use crate::thread;
use crate::Answer;

/// Bytes moved by one call at most; a pipe holds as much by default (source: pipe(7)).
const PIECE_BYTES: usize = 64 * 1024;
const NONBLOCK: u32 = libc::SPLICE_F_NONBLOCK;

/// From direct connection `index` into `pipe`.
pub fn from_socket(fd: i32, index: u32, pipe: i32, length: usize, flags: u32) -> Answer {
    let room = match room_in(pipe, flags) {
        Ok(room) => room,
        Err(errno) => return Some(Err(errno)),
    };
    let mut bytes = vec![0; length.min(room).min(PIECE_BYTES)];
    loop {
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        let answer = match receive::receive(fd, index, &mut buffers, libc::MSG_DONTWAIT, None) {
            Received::Answer(answer) => answer?,
            Received::Sleep => Err(Errno(libc::EAGAIN)),
        };
        match answer {
            Err(Errno(libc::EAGAIN)) if may_wait(fd, flags) => wait_for(fd, libc::POLLIN),
            Ok(count) => return Some(write_all(pipe, &bytes[..count])),
            Err(errno) => return Some(Err(errno)),
        }
    }
}

/// From `pipe` onto direct connection `index`.
pub fn to_socket(pipe: i32, fd: i32, index: u32, length: usize, flags: u32) -> Answer {
    if flags & NONBLOCK != 0 && !is_ready(pipe, libc::POLLIN | libc::POLLHUP) {
        return Some(Err(Errno(libc::EAGAIN)));
    }
    let mut room = Room { end: None, bytes: PIECE_BYTES };
    if !may_wait(fd, flags) {
        if !is_ready(fd, libc::POLLOUT) {
            return Some(Err(Errno(libc::EAGAIN)));
        }
        room = Room::of(index);
    }
    let mut bytes = vec![0; length.min(room.bytes)];
    let count = match call::readv(pipe, &mut [IoSliceMut::new(&mut bytes)]) {
        Ok(count) => count,
        Err(errno) => return Some(Err(errno)),
    };
    let mut rest = &bytes[..count];
    // What left the pipe must arrive: this send waits, unless there was room for all of it.
    while !rest.is_empty() {
        match send::send(fd, index, &[IoSlice::new(rest)], 0)? {
            Ok(sent) => rest = &rest[sent..],
            Err(Errno(libc::EAGAIN)) if room.was_taken_back(count - rest.len()) => {
                return Some(room.end(fd, index));
            }
            Err(Errno(libc::EAGAIN)) => wait_for(fd, libc::POLLOUT),
            Err(errno) => return Some(Err(errno)),
        }
    }
    Some(Ok(count))
}

/// What a splice that does not wait may put into a ring.
struct Room {
    /// The stream, and its tail when the room was seen; none where the kernel has the room.
    end: Option<(Stream, u64)>,
    bytes: usize,
}

impl Room {
    fn of(index: u32) -> Self {
        let socket = socket::at(index);
        let stream = if socket.is_early() { None } else { socket.sender.lock().stream.clone() };
        let found = stream.and_then(|stream| {
            let tail = stream.outgoing.tail();
            let room = usize::try_from(stream.outgoing.room().ok()?).ok()?;
            Some((stream, tail, room))
        });
        match found {
            Some((stream, tail, room @ 1..)) => {
                Self { end: Some((stream, tail)), bytes: room.min(PIECE_BYTES) }
            }
            _ => Self { end: None, bytes: PIECE_BYTES },
        }
    }

    /// True when the room is gone, though nobody but this call has written `sent` bytes: a reader
    /// that reads on makes room, and never less of it.
    fn was_taken_back(&self, sent: usize) -> bool {
        let alone = |(stream, tail): &(Stream, u64)| {
            stream.outgoing.tail() == tail.wrapping_add(sent as u64)
        };
        self.end.as_ref().is_some_and(alone)
    }

    /// The peer has broken the protocol, and what left the pipe reaches nobody.
    fn end(&self, fd: i32, index: u32) -> Result<usize, Errno> {
        let reset = Err(Errno(libc::ECONNRESET));
        self.end.iter().fold(reset, |reset, (stream, _)| {
            end::broken(Connection::new(fd, socket::at(index), stream), reset)
        })
    }
}

fn may_wait(fd: i32, flags: u32) -> bool {
    flags & NONBLOCK == 0 && !call::is_nonblocking(fd)
}

fn is_ready(fd: i32, events: i16) -> bool {
    let mut fds = [libc::pollfd { fd, events, revents: 0 }];
    let answer = poll::poll(&mut fds, Some(0), None).unwrap_or_else(|| call::poll(&mut fds, 0));
    answer.is_ok_and(|count| count > 0)
}

fn wait_for(fd: i32, events: i16) {
    let mut fds = [libc::pollfd { fd, events, revents: 0 }];
    if poll::poll(&mut fds, None, None).is_none() {
        let _ = call::poll(&mut fds, -1);
    }
}

/// Free bytes of a pipe, waiting for some unless the flags forbid it.
fn room_in(pipe: i32, flags: u32) -> Result<usize, Errno> {
    loop {
        if has_no_reader(pipe) {
            thread::raise_sigpipe();
            return Err(Errno(libc::EPIPE));
        }
        let capacity = call::fcntl(pipe, libc::F_GETPIPE_SZ, 0)?;
        let used = call::bytes_queued(pipe)?;
        if used < capacity && is_ready(pipe, libc::POLLOUT) {
            return Ok(capacity - used);
        }
        if flags & NONBLOCK != 0 || call::is_nonblocking(pipe) {
            return Err(Errno(libc::EAGAIN));
        }
        wait_for(pipe, libc::POLLOUT);
    }
}

/// Waiting for room in such a pipe would never end.
fn has_no_reader(pipe: i32) -> bool {
    let mut fds = [libc::pollfd { fd: pipe, events: 0, revents: 0 }];
    call::poll(&mut fds, 0) == Ok(1) && fds[0].revents & libc::POLLERR != 0
}

fn write_all(pipe: i32, bytes: &[u8]) -> Result<usize, Errno> {
    let mut written = 0;
    while written < bytes.len() {
        match call::writev(pipe, &[IoSlice::new(&bytes[written..])]) {
            Ok(count) => written += count,
            Err(Errno(libc::EINTR)) => {}
            Err(Errno(libc::EAGAIN)) => wait_for(pipe, libc::POLLOUT),
            Err(errno) => return Err(errno),
        }
    }
    Ok(written)
}
