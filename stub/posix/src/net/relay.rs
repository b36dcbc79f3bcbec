//! When a connection has to go native and its peer does not answer: a small process in between.
//!
//! The peer may be computing, stopped, or asleep in a call that has nothing to do with this
//! connection; it cannot move its unread bytes to the kernel's path now. So this end gets one half
//! of a fresh connection in its descriptor's place, and a forked process carries bytes between the
//! other half and the stream until either ends, or the peer comes round and switches.

use std::io::IoSliceMut;
use std::os::fd::AsRawFd;

use std::sync::atomic::Ordering::Acquire;

use heliostat_abi::code::Native;
use heliostat_abi::stream::channel::direction::{RESET, SWITCHED, TAKEN_BACK};
use heliostat_backend_socket::twin;
use heliostat_base::fd::OwnedFd;
use heliostat_base::process::Detached;
use heliostat_base::sys::Errno;
use heliostat_base::{call, packet, process};
use heliostat_client::session;

use super::early::{self, Taken};
use super::socket::{self, Connection, Socket, Stream};
use super::{end, shadow, watch};
use crate::thread::{self, Critical};
use crate::{owner, report};

const PIECE_BYTES: usize = 64 * 1024;
/// The relay looks by itself this often, should a bell be lost with a dying peer.
const LOOK_MS: i32 = 1000;

/// Puts a relay in place; false when the kernel refuses. The outgoing lane has been switched, and the
/// wish retracted, unless the peer says that it fulfils it: then the relay waits until it has. It sends
/// `rest` before all that the program writes from now on.
pub fn start(connection: Connection<'_>, rest: Vec<u8>) -> bool {
    let Connection { fd, socket, stream } = connection;
    let index = connection.index();
    stand_in(fd, index, |far| {
        Relay::new(connection, far, rest).carry();
        socket.give_slot_back(stream);
    })
}

/// Puts a connection in place that holds `bytes` and then ends as the peer has ended.
pub fn start_remains(fd: i32, index: u32, bytes: &[u8], is_reset: bool) -> bool {
    stand_in(fd, index, |far| {
        let mut sent = 0;
        while sent < bytes.len() {
            match call::send(far, &bytes[sent..], libc::MSG_NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno(libc::EINTR)) => {}
                Err(_) => return,
            }
        }
        if is_reset {
            let _ = call::linger_zero(far);
        }
    })
}

/// The program waits for a stand-in this long at most.
const STAND_IN_MS: u64 = 1000;

/// Another connection takes the place of `fd`, and a detached process does `work` with its far end:
/// a twin (`heliostat_backend_socket::twin`), or where there can be none a local one.
fn stand_in(fd: i32, index: u32, work: impl FnOnce(i32)) -> bool {
    let Ok((near, far)) = call::local_pair() else { return false };
    match process::fork_detached() {
        Ok(Detached::Child) => {
            forget_parents();
            let _ = call::close(near);
            call::keep_only(&mut [fd, far]);
            if let Some(end) = offer_twin(fd, far) {
                work(end);
            }
            process::exit_now(0)
        }
        Ok(Detached::Parent) => {
            let _ = call::close(far);
            let Some(new) = take_twin(near) else { return false };
            if !owner::is_borrowed() {
                watch::life::withdraw_shadow(index);
            }
            call::replace(new, fd).is_ok()
        }
        Err(_) => {
            let _ = (call::close(near), call::close(far));
            false
        }
    }
}

/// In the detached process: what it works with is its own from here on. Listeners, epoll sets, files
/// and rings are nothing to it, and stay as they are.
fn forget_parents() {
    let _critical = Critical::enter();
    owner::adopt();
    thread::forget_tid();
    report::forget_in_forked_child();
    socket::reset_in_forked_child();
    session::forget_in_forked_child();
}

/// In the detached process: hands a twin of `fd` over. The end to work with, unless nobody waits.
fn offer_twin(fd: i32, door: i32) -> Option<i32> {
    let hand_over = |fds: &[i32]| packet::send(door, &[1], fds).is_ok();
    let Ok((near, far)) = twin::make(fd) else { return hand_over(&[]).then_some(door) };
    let is_taken = hand_over(&[near.as_raw_fd()]);
    let _ = call::close(door);
    is_taken.then(|| far.into_raw())
}

/// In the program's process: what takes the descriptor's place.
fn take_twin(door: i32) -> Option<i32> {
    let taken = packet::set_timeouts(door, STAND_IN_MS)
        .and_then(|()| packet::receive(door, &mut [0]))
        .map(|(_, mut fds)| fds.pop());
    let _ = packet::set_timeouts(door, 0);
    if let Ok(None) = taken {
        return Some(door);
    }
    let _ = call::close(door);
    taken.ok().flatten().map(OwnedFd::into_raw)
}

/// Bytes read and not yet written, in one direction.
struct Pending {
    bytes: Vec<u8>,
    sent: usize,
    /// Nothing more is read.
    ended: bool,
    /// It ended by an error.
    failed: bool,
}

impl Pending {
    fn new() -> Self {
        Self { bytes: Vec::new(), sent: 0, ended: false, failed: false }
    }

    fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    fn wants_more(&self) -> bool {
        self.is_empty() && !self.ended
    }

    fn is_done(&self) -> bool {
        self.is_empty() && self.ended
    }

    fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) {
        if !self.wants_more() {
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
            Err(_) => (self.ended, self.failed) = (true, true),
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

    /// Nobody takes it any more.
    fn give_up(&mut self) {
        (self.bytes, self.sent, self.ended, self.failed) = (Vec::new(), 0, true, true);
    }
}

/// The stream and the shadow on one side, the program's new descriptor on the other.
struct Relay<'a> {
    shadow: i32,
    socket: &'a Socket,
    stream: &'a Stream,
    far: i32,
    /// To the program.
    inward: Pending,
    /// From the program.
    outward: Pending,
    told_far: bool,
    told_shadow: bool,
    /// The program has closed its descriptor: what it has sent may still lie here.
    far_is_closed: bool,
}

/// What poll reports of a descriptor that is through, whether it is asked for or not: waited for
/// once more, it would never let us sleep.
const THROUGH: i16 = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;

impl<'a> Relay<'a> {
    fn new(connection: Connection<'a>, far: i32, rest: Vec<u8>) -> Self {
        let Connection { fd: shadow, socket, stream } = connection;
        Self {
            shadow,
            socket,
            stream,
            far,
            inward: Pending::new(),
            outward: Pending { bytes: rest, ..Pending::new() },
            told_far: false,
            told_shadow: false,
            far_is_closed: false,
        }
    }

    /// Carries bytes until both directions have ended or one end is gone.
    fn carry(&mut self) {
        loop {
            let Self { shadow, socket, stream, far, .. } = *self;
            self.inward.fill(|bytes| read_stream(shadow, socket, stream, bytes));
            self.outward.fill(|bytes| call::recv(far, bytes, libc::MSG_DONTWAIT));
            if !self.inward.drain(far) {
                return self.end_shadow();
            }
            if !self.outward.drain(shadow) {
                // What the peer sent before it went is still carried, and nothing to it.
                self.outward.give_up();
                let _ = call::shutdown(far, libc::SHUT_RD);
            }
            self.tell_ends();
            if self.inward.failed && self.inward.is_empty() {
                let _ = call::linger_zero(far); // the peer's reset is passed on
                return;
            }
            if self.inward.is_done() && self.outward.is_done() {
                return;
            }
            if self.far_is_closed && self.outward.is_done() {
                return self.end_shadow();
            }
            self.sleep();
        }
    }

    fn tell_ends(&mut self) {
        if self.inward.is_done() && !std::mem::replace(&mut self.told_far, true) {
            let _ = call::shutdown(self.far, libc::SHUT_WR);
        }
        if self.outward.is_done() && !std::mem::replace(&mut self.told_shadow, true) {
            let _ = call::shutdown(self.shadow, libc::SHUT_WR);
        }
    }

    /// The program has closed: the connection ends as the kernel would have ended it, with a reset
    /// if bytes were left unread (RFC 2525, 2.17).
    fn end_shadow(&self) {
        if is_unread(self.stream) || !self.inward.is_empty() || self.outward.failed {
            let _ = call::linger_zero(self.shadow);
        }
    }

    /// Sleeps until there is something to carry. A descriptor of which nothing is wanted is left
    /// out, but for the one event that says that it is through.
    fn sleep(&mut self) {
        let lane = &self.stream.incoming;
        shadow::drain(self.shadow, self.socket, lane);
        let reads_ring = self.inward.wants_more();
        if reads_ring {
            lane.reader_sleeps();
        }
        let must_look = reads_ring && !is_promised(self.stream) && is_unread(self.stream);
        let wants = |is_asked: bool, events: i16| if is_asked { events } else { 0 };
        let far_events = wants(self.outward.wants_more(), libc::POLLIN)
            | wants(!self.inward.is_empty(), libc::POLLOUT);
        let shadow_events = wants(reads_ring, libc::POLLIN | libc::POLLRDHUP)
            | wants(!self.outward.is_empty(), libc::POLLOUT);
        let left_out = |fd: i32, is_left_out: bool| if is_left_out { -1 } else { fd };
        let far = left_out(self.far, self.far_is_closed && far_events & libc::POLLIN == 0);
        // While bytes for the program lie here its end is not news yet.
        let shadow = left_out(self.shadow, shadow_events == 0 && !self.inward.is_done());
        let mut fds = [
            libc::pollfd { fd: shadow, events: shadow_events, revents: 0 },
            libc::pollfd { fd: far, events: far_events, revents: 0 },
        ];
        let held_ms = lane.held_for().map_or(LOOK_MS as u64, |ns| ns.div_ceil(1_000_000));
        let _ = call::poll(&mut fds, if must_look { 0 } else { LOOK_MS.min(held_ms as i32) });
        lane.reader_awake();
        if fds[1].revents & THROUGH != 0 {
            self.far_is_closed = true;
        }
        if fds[0].revents & THROUGH != 0 && self.inward.is_done() {
            self.outward.give_up();
        }
    }
}

/// The peer says that it takes back what is unread, and has not done so yet: nobody reads it.
fn is_promised(stream: &Stream) -> bool {
    let lane = &stream.incoming;
    lane.is_reader_leaving() && !lane.is_native_wanted() && lane.flags() & SWITCHED == 0
}

/// True when the ring holds bytes that are not taken back.
fn is_unread(stream: &Stream) -> bool {
    !is_taken_back(stream) && stream.incoming.unread() != Ok(0)
}

/// What was unread follows on the shadow.
fn is_taken_back(stream: &Stream) -> bool {
    let taken_back = SWITCHED | TAKEN_BACK;
    stream.incoming.flags() & taken_back == taken_back
}

/// What comes in: the ring to its end, and after the peer's switch the shadow.
fn read_stream(
    shadow: i32,
    socket: &Socket,
    stream: &Stream,
    bytes: &mut [u8],
) -> Result<usize, Errno> {
    if socket.is_native() {
        return call::recv(shadow, bytes, libc::MSG_DONTWAIT);
    }
    if socket.reads_shadow() {
        let taken =
            early::take(Connection::new(shadow, socket, stream), &mut [IoSliceMut::new(bytes)], 0);
        match taken {
            Taken::Bytes(count) => return Ok(count),
            Taken::End if early::is_cut(socket, stream) => return Err(Errno(libc::ECONNRESET)),
            Taken::Ring | Taken::End => {}
            Taken::Nothing => return Err(Errno(libc::EAGAIN)),
            Taken::Failed(errno) => return Err(errno),
            Taken::Native if socket.stage().is_kernels() => {
                // The offer was not what it said: all is on the shadow.
                socket.set_native(Native::Identity);
                return call::recv(shadow, bytes, libc::MSG_DONTWAIT);
            }
            Taken::Native | Taken::Corrupt => return Err(Errno(libc::ECONNRESET)),
        }
    }
    // Looked at before the ring: what was written before the end lies in it.
    let has_ended = socket.shadow_ended.load(Acquire);
    let flags = stream.incoming.flags();
    if is_promised(stream) && !has_ended {
        shadow::probe(shadow, socket);
        return Err(Errno(libc::EAGAIN));
    }
    if is_unread(stream) {
        let done = stream.incoming.read(&mut [IoSliceMut::new(bytes)], false);
        // Our direction is switched, so no bell can be rung: a writer that sleeps for room wakes
        // when it looks at its wish, which the shadow's byte order keeps apart from payload.
        return done.map(|done| done.bytes).map_err(|_| Errno(libc::ECONNRESET));
    }
    if flags & SWITCHED != 0 {
        shadow::drain(shadow, socket, &stream.incoming);
        return match stream.incoming.bells_pending() {
            0 => call::recv(shadow, bytes, libc::MSG_DONTWAIT),
            // Counted by a peer that ended before it rang.
            _ if socket.shadow_ended.load(Acquire) => Err(Errno(libc::ECONNRESET)),
            _ => Err(Errno(libc::EAGAIN)),
        };
    }
    if has_ended || flags & RESET != 0 {
        end::settle(socket, stream);
    }
    if end::is_in_order(socket, flags) {
        return Ok(0);
    }
    if has_ended || flags & RESET != 0 {
        return Err(Errno(libc::ECONNRESET));
    }
    // Bytes that nobody announced would keep us awake for ever: the peer broke the protocol.
    if shadow::has_stray_bytes(shadow, socket, &stream.incoming) {
        call::reset(shadow);
        return Err(Errno(libc::ECONNRESET));
    }
    shadow::probe(shadow, socket);
    Err(Errno(libc::EAGAIN))
}
