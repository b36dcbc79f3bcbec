//! When a connection has to go native and its peer does not answer: a small process in between.
//!
//! The peer may be computing, stopped, or asleep in a call that has nothing to do with this
//! connection; it cannot move its unread bytes to the kernel's path now. So this end gets one half
//! of a fresh local connection in its descriptor's place, and a forked process carries bytes
//! between the other half and the stream until either ends, or the peer comes round and switches.

use std::io::IoSliceMut;

use heliostat_abi::channel::direction::{FIN, SWITCHED};
use heliostat_base::process::Detached;
use heliostat_base::sys::Errno;
use heliostat_base::{call, process};

use super::shadow;
use super::socket::{Socket, Stream};
use crate::event::epoll;

const PIECE_BYTES: usize = 64 * 1024;
/// The relay looks by itself this often, should a bell be lost with a dying peer.
const LOOK_MS: i32 = 1000;

/// Puts a relay in place; false when the kernel refuses. The outgoing lane has been switched.
pub fn start(fd: i32, index: u32, socket: &Socket, stream: &Stream) -> bool {
    if !stream.incoming.retract_want() {
        return false; // the peer has come round after all
    }
    let Ok((ours, far)) = call::local_pair() else { return false };
    match process::fork_detached() {
        Ok(Detached::Child) => {
            crate::process::in_forked_child();
            let _ = call::close(ours);
            call::keep_only(&mut [fd, far]);
            carry(fd, socket, stream, far);
            process::exit_now(0)
        }
        Ok(Detached::Parent) => {
            epoll::withdraw_shadow(index);
            let is_replaced = call::replace(ours, fd).is_ok();
            let _ = call::close(far);
            is_replaced
        }
        Err(_) => {
            let _ = (call::close(ours), call::close(far));
            false
        }
    }
}

/// Bytes read and not yet written, in one direction.
struct Pending {
    bytes: Vec<u8>,
    sent: usize,
    ended: bool,
}

impl Pending {
    fn new() -> Self {
        Self { bytes: Vec::new(), sent: 0, ended: false }
    }

    fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) {
        if !self.is_empty() || self.ended {
            return;
        }
        let mut bytes = vec![0; PIECE_BYTES];
        match read(&mut bytes) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                bytes.truncate(count);
                (self.bytes, self.sent) = (bytes, 0);
            }
            Err(Errno(libc::EAGAIN | libc::EINTR)) => {}
            Err(_) => self.ended = true,
        }
    }

    /// Sends what there is; false when the receiver is gone.
    fn drain(&mut self, to: i32) -> bool {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        while !self.is_empty() {
            match call::send(to, &self.bytes[self.sent..], flags) {
                Ok(count) => self.sent += count,
                Err(Errno(libc::EAGAIN | libc::EINTR)) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

/// Carries bytes until both directions have ended or one end is gone.
fn carry(shadow: i32, socket: &Socket, stream: &Stream, far: i32) {
    let (mut inward, mut outward) = (Pending::new(), Pending::new());
    let (mut told_far, mut told_shadow) = (false, false);
    loop {
        inward.fill(|bytes| read_stream(shadow, socket, stream, bytes));
        outward.fill(|bytes| call::recv(far, bytes, libc::MSG_DONTWAIT));
        if !inward.drain(far) || !outward.drain(shadow) {
            return;
        }
        if inward.ended && inward.is_empty() && !std::mem::replace(&mut told_far, true) {
            let _ = call::shutdown(far, libc::SHUT_WR);
        }
        if outward.ended && outward.is_empty() && !std::mem::replace(&mut told_shadow, true) {
            let _ = call::shutdown(shadow, libc::SHUT_WR);
        }
        if told_far && told_shadow {
            return;
        }
        sleep(shadow, socket, stream, far, &inward, &outward);
    }
}

/// What comes in: the ring to its end, and after the peer's switch the shadow.
fn read_stream(
    shadow: i32,
    socket: &Socket,
    stream: &Stream,
    bytes: &mut [u8],
) -> Result<usize, Errno> {
    let done = stream.incoming.read(&mut [IoSliceMut::new(bytes)], false);
    let done = done.map_err(|_| Errno(libc::ECONNRESET))?;
    if done.bytes > 0 {
        // Our direction is switched, so no bell can be rung: a writer that sleeps for room wakes
        // when it looks at its wish, which the shadow's byte order keeps apart from payload.
        return Ok(done.bytes);
    }
    let flags = stream.incoming.flags();
    if flags & SWITCHED != 0 {
        while stream.incoming.bells_pending() > 0 {
            shadow::drain(shadow, socket, &stream.incoming);
        }
        return call::recv(shadow, bytes, libc::MSG_DONTWAIT);
    }
    if flags & FIN != 0 || shadow::probe(shadow, socket) {
        return Ok(0);
    }
    Err(Errno(libc::EAGAIN))
}

fn sleep(
    shadow: i32,
    socket: &Socket,
    stream: &Stream,
    far: i32,
    inward: &Pending,
    outward: &Pending,
) {
    shadow::drain(shadow, socket, &stream.incoming);
    stream.incoming.reader_sleeps();
    let is_ready = stream.incoming.unread().is_ok_and(|unread| unread > 0);
    let wants = |is_asked: bool, events: i16| if is_asked { events } else { 0 };
    let far_events = wants(outward.is_empty() && !outward.ended, libc::POLLIN)
        | wants(!inward.is_empty(), libc::POLLOUT);
    let shadow_events = wants(inward.is_empty() && !inward.ended, libc::POLLIN | libc::POLLRDHUP)
        | wants(!outward.is_empty(), libc::POLLOUT);
    let mut fds = [
        libc::pollfd { fd: shadow, events: shadow_events, revents: 0 },
        libc::pollfd { fd: far, events: far_events, revents: 0 },
    ];
    let must_look = is_ready && inward.is_empty();
    let _ = call::poll(&mut fds, if must_look { 0 } else { LOOK_MS });
    stream.incoming.reader_awake();
}
