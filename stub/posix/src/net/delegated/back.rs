//! The socket comes back to its descriptor, with each direction exactly where it is.
//!
//! ```text
//! asked for:     wish --> between two turns of the loop's the socket is taken --> positions are the lanes'
//!                within one: bell --> the loop stops, SWITCHED, closes its ends --> likewise
//! loop killed:   the shadow has ended without a flag --> positions are the kernel's:
//!                received and not published: published here; sent and not consumed: consumed here
//! then:          what is left in the outgoing lane goes to the socket, the socket to the number
//! ```
//! What is unread in the incoming lane is read there, and the descriptor is the kernel's after it; a
//! descriptor that goes to another program gets a relay for it.

use heliostat_base::sync::Ordering::{Acquire, Relaxed, Release};

use heliostat_abi::stream::channel::direction::{RESET, SWITCHED};
use heliostat_backend_tcp::Positions;
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};
use heliostat_ring::stream::Corrupt;

use super::hidden::put;
use super::{door, hidden};
use crate::net::carried::{is_carried, is_lost};
use crate::net::channel::Side;
use crate::net::side_lock::{self, Half};
use crate::net::socket::{index_of, Connection, Socket, Stream};
use crate::net::{relay, shadow, watch};
use crate::owner;
use crate::table::{self, DescriptorKind};

/// A turn takes less than a millisecond; a loop that was stopped within one is not waited for longer.
const TURN_NS: u64 = 30_000_000_000;
/// Between two looks at one that was rung for.
const LOOK_NS: u64 = 1_000_000;
/// Room asked of the kernel for what was not sent yet.
const REST_BYTES: i32 = 1 << 20;
/// What it gives at most to who asks (twice net.core.wmem_max, as Linux is delivered).
const ROOM_ASKED_MAX: i32 = 2 * 212_992;
/// So long a peer is waited for that has not read what was sent before.
const ROOM_NS: u64 = 50_000_000;

/// What became of a connection that was taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakenBack {
    /// All is the kernel's, once this is noted.
    Settled,
    /// So is what goes out. What comes in is read from the ring first.
    Reading,
    /// It cannot go on: the loop does not answer, or what it left makes no sense.
    Lost,
}

/// Takes the socket of a carried connection back. The caller holds the lock of leaving.
pub fn take_back(connection: Connection<'_>, is_complete: bool) -> TakenBack {
    let hidden = connection.socket.carried.load(Acquire);
    let taken = move_back(connection, hidden, is_complete);
    if taken == TakenBack::Lost {
        put_back(connection, hidden);
    }
    if !owner::is_borrowed() {
        hidden::drop_hidden(connection.socket);
    }
    taken
}

/// Stops the loop, and puts the socket and what was not sent in its place. Nobody reads or writes meanwhile.
fn move_back(connection: Connection<'_>, hidden: i32, is_complete: bool) -> TakenBack {
    let Connection { fd, socket, stream } = connection;
    let mut receiver = socket.receiver.lock();
    let _reading = side_lock::enter(socket, stream, Half::Reading);
    let mut sender = socket.sender.lock();
    let _writing = side_lock::enter(socket, stream, Half::Writing);
    if !stop_loop(connection) || stream.incoming.flags() & RESET != 0 {
        return TakenBack::Lost;
    }
    if stream.incoming.flags() & SWITCHED == 0 && recover(hidden, socket, stream).is_err() {
        return TakenBack::Lost;
    }
    stream.outgoing.push();
    let mut rest = stream.outgoing.take_back().unwrap_or_default();
    let _ = stream.outgoing.account(rest.len() as u64);
    wake_sleepers(fd);
    put_back(connection, hidden);
    sender.stream = None;
    rest.drain(..send_rest(hidden, &rest));
    shadow::options::restore_delay(hidden, socket);
    if rest.is_empty() && socket.write_shut.load(Relaxed) {
        let _ = call::shutdown(hidden, libc::SHUT_WR);
    }
    forget_shadow(socket);
    let is_read = stream.incoming.unread() == Ok(0);
    match (rest.is_empty(), is_read || !is_complete) {
        (true, true) if is_read => {
            receiver.leave();
            TakenBack::Settled
        }
        (true, true) => TakenBack::Reading,
        (is_sent, _) => match leave_to_relay(connection, rest) {
            true => {
                receiver.stream = None;
                TakenBack::Settled
            }
            false if is_sent => TakenBack::Reading,
            false => TakenBack::Lost,
        },
    }
}

/// What the socket does not take, and what is unread in the ring, is a relay's to carry, whose other end
/// takes the descriptor's place; false where there can be none.
fn leave_to_relay(connection: Connection<'_>, rest: Vec<u8>) -> bool {
    let Connection { fd, socket, .. } = connection;
    let has_rest = !rest.is_empty();
    if !relay::start(connection, rest) {
        return false;
    }
    if has_rest && socket.write_shut.load(Relaxed) {
        let _ = call::shutdown(fd, libc::SHUT_WR);
    }
    let index = index_of(socket);
    if owner::is_borrowed() {
        door::show_twin(fd, index);
        return true;
    }
    table::walk(0, u32::MAX)
        .filter(|(number, kind)| *number != fd && *kind == DescriptorKind::Socket(index))
        .for_each(|(number, _)| put(fd, number));
    true
}

/// Stops the loop between two turns, or waits until it has let go, or is seen to be gone; false when it
/// was stopped within a turn.
fn stop_loop(connection: Connection<'_>) -> bool {
    let Connection { fd, socket, stream } = connection;
    let has_let_go = || stream.incoming.flags() & (SWITCHED | RESET) != 0;
    if has_let_go() || socket.shadow_ended.load(Acquire) {
        return true;
    }
    stream.incoming.want_native();
    let takes = || {
        let is_taken = stream.outgoing.take_turns(); // T1
        if is_taken {
            stream.incoming.raise(SWITCHED);
        }
        is_taken
    };
    let is_taken = takes();
    // Also where it is taken: the loop lets go of its ends then.
    stream.outgoing.count_bell();
    if call::send(fd, &[0], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL).is_err() {
        stream.outgoing.uncount_bell();
    }
    if is_taken {
        return true;
    }
    let ends = clock::monotonic_ns() + TURN_NS;
    while clock::monotonic_ns() < ends {
        let mut fds = [libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 }];
        let told = call::ppoll(&mut fds, Some(LOOK_NS), None);
        if told == Ok(1) || has_let_go() || takes() {
            return true;
        }
    }
    false
}

/// The loop was killed: what it had moved and not said.
fn recover(hidden: i32, socket: &Socket, stream: &Stream) -> Result<(), Corrupt> {
    let unknown = Corrupt { unread: 0, capacity: 0 };
    let base = Positions {
        taken: socket.base_taken.load(Relaxed),
        given: socket.base_given.load(Relaxed),
        is_closed: false,
    };
    let now = Positions::of(hidden).map_err(|_| unknown)?;
    let (taken, given) = now.since(&base);
    let published = stream.incoming.tail();
    stream.incoming.recover(taken.wrapping_sub(published))?;
    let mut sent = given.wrapping_sub(stream.outgoing.head());
    if now.is_closed {
        sent = sent.min(stream.outgoing.unread()?);
    }
    stream.outgoing.account(sent)?;
    stream.incoming.raise(SWITCHED);
    stream.slot.leave(Side::Server); // nobody else does, and the slot could not be used again
    Ok(())
}

/// Threads that sleep on the shadow keep it open. Its far end would wake them, but for a loop that is stopped.
fn wake_sleepers(shadow: i32) {
    if !owner::is_borrowed() {
        let _ = call::shutdown(shadow, libc::SHUT_RDWR);
    }
}

/// Every number of this process that was the shadow's is the socket's, and no bell is expected any more:
/// both at once for threads that take bells off, since what they took next would be payload. A child of
/// vfork has numbers of its own, of which no table knows.
fn put_back(connection: Connection<'_>, hidden: i32) {
    let Connection { fd, socket, stream } = connection;
    let index = connection.index();
    if !owner::is_borrowed() {
        watch::life::withdraw_shadow(index); // locks that are held where bells are taken off
    }
    let _alone = socket.on_shadow.lock();
    if owner::is_borrowed() {
        put(hidden, fd);
    } else {
        table::walk(0, u32::MAX)
            .filter(|(_, kind)| *kind == DescriptorKind::Socket(index))
            .for_each(|(number, _)| put(hidden, number));
    }
    stream.incoming.bells_drained(stream.incoming.bells_pending());
}

/// What lay in the outgoing lane, in front of all that the program writes from now on: how much of it the
/// kernel takes. A peer that reads makes room soon.
fn send_rest(hidden: i32, rest: &[u8]) -> usize {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let (mut sent, mut is_wide) = (0, false);
    let ends = clock::monotonic_ns() + ROOM_NS;
    while sent < rest.len() {
        match call::send(hidden, &rest[sent..], flags) {
            Ok(count) => sent += count,
            Err(_) if !std::mem::replace(&mut is_wide, true) => widen(hidden),
            Err(Errno(libc::EAGAIN)) if clock::monotonic_ns() < ends => {
                let mut fds = [libc::pollfd { fd: hidden, events: libc::POLLOUT, revents: 0 }];
                let _ = call::ppoll(&mut fds, Some(LOOK_NS), None);
            }
            // Of a connection that is broken nothing is lost with it.
            Err(errno) => return if errno == Errno(libc::EAGAIN) { sent } else { rest.len() },
        }
    }
    sent
}

/// Gives the socket more room, unless the kernel has given it as much by itself: asked for, it is less.
fn widen(hidden: i32) {
    let room = call::option(hidden, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
    if room < ROOM_ASKED_MAX {
        let _ = call::set_option(hidden, libc::SOL_SOCKET, libc::SO_SNDBUF, REST_BYTES);
    }
}

/// The shadow is gone, and with it its end, which was none of the connection's.
fn forget_shadow(socket: &Socket) {
    for flag in [&socket.shadow_ended, &socket.end_settled, &socket.doubted] {
        flag.store(false, Release);
    }
    socket.shadow_error.store(0, Release);
}

/// Before a connection is closed: true when its loop is gone, and the rest is to be sent here.
pub fn is_lost_at_close(connection: Connection<'_>) -> bool {
    let Connection { fd, socket, stream } = connection;
    is_carried(socket) && {
        shadow::probe(fd, socket);
        is_lost(socket, stream)
    }
}
