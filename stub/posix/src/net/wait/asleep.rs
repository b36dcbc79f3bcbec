//! Sleeps with a frame of ours on the stack: those that a clock may end, those for room, and those beside
//! another sleeper.

use std::time::Duration;

use heliostat_base::sys::Errno;
use heliostat_base::{call, futex};

use super::{is_changed, Blocked, Wake};
use crate::net::socket::{Connection, Socket, Stream};
use crate::net::{early, shadow};
use crate::{flush, waiting};

/// A second sleeper relies on the first for this long.
const FOLLOWER_LIMIT_NS: u64 = 20_000_000;

/// Sleeps beside another sleeper of the same connection; `None` when nothing came of that for a
/// while: the other may have been cancelled, so this thread sleeps on the shadow as well.
pub(super) fn follow(socket: &Socket, seen: u32, blocked: &Blocked) -> Option<Wake> {
    if blocked.is_interrupted() {
        return Some(Wake::Interrupted);
    }
    let limit = blocked.left().map_or(FOLLOWER_LIMIT_NS, |left| left.min(FOLLOWER_LIMIT_NS));
    match futex::wait(&socket.wakes, seen, Some(Duration::from_nanos(limit))) {
        Ok(futex::Wait::Interrupted) if blocked.is_interrupted() => Some(Wake::Interrupted),
        Ok(futex::Wait::TimedOut) => None,
        _ => Some(Wake::Look),
    }
}

/// Sleeps on the shadow, where this thread has its place.
pub(super) fn lead(connection: Connection<'_>, blocked: &Blocked) -> Wake {
    let Connection { socket, stream, .. } = connection;
    if is_changed(connection, blocked.for_room) {
        return Wake::Look;
    }
    waiting::sleeps();
    let wake = sleep_on_shadow(socket, stream, blocked);
    waiting::woke(socket.habit(blocked.for_room));
    wake
}

fn sleep_on_shadow(socket: &Socket, stream: &Stream, blocked: &Blocked) -> Wake {
    let connection = Connection::new(blocked.fd, socket, stream);
    loop {
        // The kernel does not know of a handler that ran within this call already, as those do that a
        // critical section has put off.
        if blocked.is_interrupted() {
            return Wake::Interrupted;
        }
        let (events, pause) = match blocked.for_room {
            true => early::room_events(connection),
            false => (libc::POLLIN | libc::POLLRDHUP, held_for(socket, stream)),
        };
        let pause = [pause, socket.siblings_pause(stream)].into_iter().flatten().min();
        let limit = [pause, blocked.left()].into_iter().flatten().min();
        if !blocked.for_room && limit.is_none() {
            return slept(socket, call::recv(blocked.fd, &mut [0], libc::MSG_PEEK));
        }
        let wake = nap_on_shadow(socket, events, limit, blocked);
        if wake != Wake::TimedOut || blocked.is_over() {
            return wake;
        }
        if is_changed(connection, blocked.for_room) {
            return Wake::Look;
        }
    }
}

/// What the writer holds back is there when its time has come.
fn held_for(socket: &Socket, stream: &Stream) -> Option<u64> {
    match socket.is_early() {
        true => None,
        false => stream.incoming.held_for(),
    }
}

/// What recv(2) told of the shadow. It does what a native read would do, except that the byte stays where
/// it is.
pub(super) fn slept(socket: &Socket, answer: Result<usize, Errno>) -> Wake {
    match answer {
        Ok(0) if socket.stage().is_kernels() => Wake::Look,
        Ok(0) => {
            shadow::note_end(socket);
            Wake::Look
        }
        Ok(_) => Wake::Look,
        Err(Errno(libc::EINTR)) => Wake::Interrupted,
        Err(Errno(libc::EAGAIN)) => Wake::TimedOut,
        Err(errno) => {
            match socket.stage().is_kernels() {
                true => shadow::keep_kernels_error(socket, errno),
                false => shadow::note_error(socket, errno),
            }
            Wake::Look
        }
    }
}

/// One short sleep on the shadow, of a call that must look by itself.
pub fn sit_out(socket: &Socket, blocked: &Blocked) -> Wake {
    if blocked.is_interrupted() {
        return Wake::Interrupted;
    }
    let pause = early::BELL_PAUSE_NS;
    let nap = blocked.left().map_or(pause, |left| left.min(pause));
    match nap_on_shadow(socket, libc::POLLRDHUP, Some(nap), blocked) {
        Wake::TimedOut if !blocked.is_over() => Wake::Look,
        wake => wake,
    }
}

/// One short sleep on the shadow, which the end of a flush ends too.
pub(super) fn nap_beside(socket: &Socket, blocked: &Blocked, rings: [i32; 2]) {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 };
    let mut fds = [blocked.fd, rings[0], rings[1]].map(entry);
    let limit = [blocked.left(), Some(flush::sleep_at_most_ns())].into_iter().flatten().min();
    if call::ppoll(&mut fds, limit, None).is_ok() && fds[0].revents != 0 {
        shadow::learn(blocked.fd, socket, fds[0].revents as u32);
    }
}

fn nap_on_shadow(socket: &Socket, events: i16, nap: Option<u64>, blocked: &Blocked) -> Wake {
    let fd = blocked.fd;
    let mut fds = [libc::pollfd { fd, events, revents: 0 }];
    match call::ppoll(&mut fds, nap, None) {
        Ok(0) => Wake::TimedOut,
        Ok(_) => {
            shadow::learn(fd, socket, fds[0].revents as u32);
            Wake::Look
        }
        Err(_) if blocked.is_interrupted() => Wake::Interrupted,
        Err(_) => Wake::Look,
    }
}
