//! Leaving the direct path without losing a byte.
//!
//! Each direction is switched by its writer: bytes before the switch lie in the ring, bytes after
//! it follow on the shadow. An end that cannot read the ring any more (its descriptor goes to
//! another program) freezes its reading and asks the writer to take the unread bytes back and
//! send them on the shadow instead (`complete`). Both directions always switch together.
//!
//! ```text
//! initiator                               peer
//! want native on its incoming lane
//! SWITCHED on its outgoing lane       --> sees either at its next call or wake-up
//!                                         unread bytes of its outgoing lane back, SWITCHED
//! the next byte is payload            <-- those bytes on the shadow
//! ```

mod complete;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use heliostat_abi::code::Native;
use heliostat_abi::stream::channel::direction::{SWITCHED, TAKEN_BACK};
use heliostat_abi::stream::channel::SlotState;
use heliostat_base::call;
use heliostat_ring::stream::{Lane, Wish};

use super::carried;
use super::channel::Side;
use super::delegated::{self, TakenBack};
use super::early;
use super::early::proof::{self, Proof};
use super::shadow::sleepers;
use super::side_lock::{self, Half};
use super::socket::{self, Connection, Socket, Stage};
use super::{report_line, shadow, unflushed, watch};
use crate::report;
use crate::thread::Critical;

/// Room asked of the kernel for bytes taken back, at least: they go out in one call.
const TAKE_BACK_BUFFER: usize = 1 << 20;
/// So many bytes go out at once wherever the kernel's limits are the usual ones.
const TAKE_BACK_SURE: u64 = 256 * 1024;

/// Moves connection `index` to the kernel's path: because the peer switched, or because this end has
/// to. Where the descriptor itself goes to somebody without the ring, both directions are off it
/// when this returns (`complete`). Otherwise only what goes out switches now, and the reader follows
/// when it meets the peer's switch. Not of an accepted connection that is undecided (`demote::leave`).
#[cold]
pub fn leave(fd: i32, index: u32, reason: Native) {
    let is_complete = match reason {
        Native::Exec | Native::Passed | Native::Nested => true,
        Native::OwnDescriptors | Native::Ring => true,
        // Processes that share an epoll set after a fork share its connections, and read the ring.
        Native::SharedSet => !socket::at(index).is_shared(),
        _ => false,
    };
    leave_as(fd, index, reason, is_complete);
}

/// As `leave`, with both directions off the ring when this returns.
#[cold]
pub fn leave_at_once(fd: i32, index: u32, reason: Native) {
    leave_as(fd, index, reason, true);
}

fn leave_as(fd: i32, index: u32, reason: Native, is_complete: bool) {
    let _critical = Critical::enter();
    let socket = socket::at(index);
    let _alone = socket.leaving.lock();
    let Some(stream) = socket.stream() else { return finish(fd, index, reason) };
    let connection = Connection::new(fd, socket, &stream);
    if carried::is_carried(socket) {
        let reason = delegated::reason_of(&stream, reason);
        return match delegated::take_back(connection, is_complete) {
            TakenBack::Settled => finish(fd, index, reason),
            TakenBack::Reading if is_complete => complete::reset(connection, reason),
            TakenBack::Reading => watch::life::came_back(index),
            TakenBack::Lost => complete::reset(connection, reason),
        };
    }
    if withdraw_locked(connection, reason) || resolve_locked(connection, reason) {
        return;
    }
    if is_complete {
        return complete::leave(connection, reason);
    }
    switch_outgoing(connection, Bell::Always);
    if stream.incoming.flags() & SWITCHED != 0 {
        finish_incoming(connection, reason);
    }
}

/// Finds out what a claim is worth that is not proven. True when the connection is native from here
/// on: the client has not begun its ring, so nothing lies there, or the offer was false.
pub fn resolve(fd: i32, index: u32, reason: Native) -> bool {
    let socket = socket::at(index);
    if socket.stage() != Stage::Accepted {
        return false;
    }
    let _critical = Critical::enter();
    let _alone = socket.leaving.lock();
    let stream = socket.stream();
    stream.is_some_and(|stream| resolve_locked(Connection::new(fd, socket, &stream), reason))
}

/// Takes an offer back that nobody claimed: the connection is the kernel's, as it was all along.
/// False when there is none, or it was claimed.
pub fn withdraw(fd: i32, index: u32, reason: Native) -> bool {
    let socket = socket::at(index);
    if socket.stage() != Stage::Offered {
        return false;
    }
    let _critical = Critical::enter();
    let _alone = socket.leaving.lock();
    let stream = socket.stream();
    stream.is_some_and(|stream| withdraw_locked(Connection::new(fd, socket, &stream), reason))
}

/// Before a connect(2) that dissolves the connection: the peer sees the reset that the kernel sends,
/// and whatever the descriptor is next, is the kernel's.
#[cold]
pub fn dissolve(fd: i32, index: u32) {
    let _critical = Critical::enter();
    let socket = socket::at(index);
    let _alone = socket.leaving.lock();
    let Some(stream) = socket.stream() else { return };
    let connection = Connection::new(fd, socket, &stream);
    if !withdraw_locked(connection, Native::Call) && !resolve_locked(connection, Native::Call) {
        complete::reset(connection, Native::Call);
    }
}

fn withdraw_locked(connection: Connection<'_>, reason: Native) -> bool {
    let Connection { socket, stream, .. } = connection;
    // No writer begins the ring meanwhile.
    let sender = socket.sender.lock();
    if socket.stage() != Stage::Offered {
        return false;
    }
    let is_ours = stream.slot.withdraw() || stream.slot.retreat();
    socket.set_stage(Stage::Settled);
    drop(sender);
    become_native(connection, reason);
    if is_ours {
        stream.slot.clone().abandon();
    } // otherwise the state is nonsense, and the slot is not used again
    true
}

/// See `resolve`.
fn resolve_locked(connection: Connection<'_>, reason: Native) -> bool {
    let Connection { socket, stream, .. } = connection;
    let Some(reason) = reason_for_native(connection, reason) else { return false };
    become_native(connection, reason);
    socket.let_go_of_left(stream);
    true
}

/// Why an accepted connection is native now, if it is.
fn reason_for_native(connection: Connection<'_>, reason: Native) -> Option<Native> {
    let Connection { socket, stream, .. } = connection;
    let _receiver = socket.receiver.lock();
    if socket.stage() != Stage::Accepted {
        return None;
    }
    let _shared = side_lock::enter(socket, stream, Half::Reading);
    match stream.slot.state() {
        SlotState::Claimed if stream.slot.revoke() => return Some(reason),
        SlotState::Claimed | SlotState::Started | SlotState::Proven => {}
        // Another holder of this end has given the claim up, or the client has.
        _ => return Some(reason),
    }
    let is_false = proof::look_locked(connection) == Proof::False;
    is_false.then(|| {
        stream.slot.refuse();
        Native::Identity
    })
}

/// All is the kernel's from here on, and nothing lies anywhere else.
fn become_native(connection: Connection<'_>, reason: Native) {
    let Connection { fd, socket, .. } = connection;
    let index = connection.index();
    socket.receiver.lock().stream = None;
    let mut sender = socket.sender.lock();
    sender.stream = None;
    socket.set_stage(Stage::Settled);
    shadow::options::restore_delay(fd, socket);
    shut_shadow(fd, socket);
    drop(sender);
    finish(fd, index, reason);
}

/// For whom the bell of a switch is rung.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bell {
    /// The peer has to look once more in any case.
    Always,
    /// Only for a peer that sleeps on the connection: if one that does not ends before it looks,
    /// its end is not a reset for an unread bell.
    ForSleepers,
}

/// Switches what goes out; takes unread bytes back when the reader asked for it. One bell is
/// counted before the switch and rung after it, so that the peer looks once more, and knows that
/// this byte is not payload.
fn switch_outgoing(connection: Connection<'_>, bell: Bell) {
    let Connection { fd, socket, stream } = connection;
    let mut sender = socket.sender.lock();
    // Another thread may have written since all was settled.
    unflushed::see_through(connection, &mut sender);
    if sender.stream.take().is_none() {
        return;
    }
    let _shared = side_lock::enter(socket, stream, Half::Writing);
    if stream.outgoing.flags() & SWITCHED != 0 {
        return; // another holder of this end has done it
    }
    if socket.stage() == Stage::Accepted {
        // Not proven: all that was sent is on the shadow, and no bell may be.
        stream.outgoing.raise(SWITCHED);
        return shut_shadow(fd, socket);
    }
    stream.outgoing.push();
    let lane = &stream.outgoing;
    let wish = if may_take_back(fd, lane) { lane.accept_want() } else { None };
    let (bytes, flags) = match wish {
        Some(_) => (lane.take_back().unwrap_or_default(), SWITCHED | TAKEN_BACK),
        None => (Vec::new(), SWITCHED),
    };
    match wish == Some(Wish::Silent) || has_switched_and_ended(connection) {
        // It listens to no bell any more; TCP would answer it as if the program had written.
        true => lane.raise(flags),
        false => shadow::ring_bell_around(fd, socket, lane, 0, || {
            lane.raise(flags);
            bell == Bell::Always
                || lane.take_sleeping_reader()
                || stream.slot.is_peer_shared(stream.side)
        }),
    }
    shadow::options::restore_delay(fd, socket);
    send_all(fd, &bytes);
    shut_shadow(fd, socket);
}

fn has_switched_and_ended(connection: Connection<'_>) -> bool {
    let Connection { fd, socket, stream } = connection;
    stream.incoming.flags() & SWITCHED != 0 && {
        shadow::probe(fd, socket);
        socket.shadow_ended.load(Relaxed)
    }
}

/// A half-closed stream half-closes its shadow, which stayed open for bells until now.
fn shut_shadow(fd: i32, socket: &Socket) {
    if socket.write_shut.load(Relaxed) {
        let _ = call::shutdown(fd, libc::SHUT_WR);
    }
}

/// False when the kernel may not take all that is unread at once (net.core.wmem_max beside a large
/// ring): it stays in the ring then, for a relay to read.
fn may_take_back(fd: i32, lane: &Lane) -> bool {
    let unread = lane.unsent().unwrap_or(0);
    if unread <= TAKE_BACK_SURE || !lane.is_native_wanted() {
        return true;
    }
    widen(fd, unread as usize);
    // The kernel says twice what it gives to bytes.
    let given = call::option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
    unread <= given as u64 / 2
}

fn widen(fd: i32, bytes: usize) {
    let room = i32::try_from(bytes.max(TAKE_BACK_BUFFER)).unwrap_or(i32::MAX);
    let _ = call::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, room);
}

/// Sends what was taken back. The buffer is sized for all of it, so that a peer that does not
/// read cannot hold us; what the kernel refuses even so is a reset connection.
fn send_all(fd: i32, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    widen(fd, bytes.len());
    let mut sent = 0;
    while sent < bytes.len() {
        match call::send(fd, &bytes[sent..], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(count) => sent += count,
            Err(_) => return call::reset(fd),
        }
    }
}

/// True when the peer has switched, and what lies in front of that has been read, taken back or, of
/// bells, taken off the shadow: going native gets further then.
pub fn can_follow(connection: Connection<'_>) -> bool {
    let Connection { socket, stream, .. } = connection;
    let flags = stream.incoming.flags();
    if flags & SWITCHED == 0 || (flags & TAKEN_BACK == 0 && stream.incoming.unread() != Ok(0)) {
        return false;
    }
    if socket.awaits_bell.load(Acquire) {
        sleepers::drain_unslept(connection);
        return stream.incoming.bells_pending() == 0 || socket.shadow_ended.load(Relaxed);
    }
    true
}

/// The incoming lane after its switch: what is left in the ring must have been read or taken
/// back; then the bells go, and the shadow's next byte is payload.
fn finish_incoming(connection: Connection<'_>, reason: Native) {
    let Connection { fd, socket, stream } = connection;
    let index = connection.index();
    if socket.reads_shadow() {
        match (stream.side, stream.slot.state()) {
            // It was never begun: all of it lies on the shadow, and no bell among it.
            (Side::Client, SlotState::Started) => {
                socket.receiver.lock().leave();
                socket.set_stage(Stage::Settled);
                return finish(fd, index, reason);
            }
            _ if early::settles(connection) => {}
            // Bells may lie behind the rest of the prefix.
            _ => return,
        }
    }
    let taken_back = stream.incoming.flags() & TAKEN_BACK != 0;
    if !taken_back && stream.incoming.unread().is_ok_and(|unread| unread > 0) {
        return; // the reader comes back here once it has read them
    }
    // A bell that others have to see first is one that is not here yet.
    sleepers::drain_unslept(connection);
    let missing = stream.incoming.bells_pending();
    if missing > shadow::BELLS_MAX {
        return complete::reset(connection, Native::Corrupt);
    }
    if missing != 0 && !socket.shadow_ended.load(Relaxed) {
        // It would come in the middle of payload. Its peer may be stopped in front of ringing it, or
        // lie: nobody waits here, and who looks again comes back.
        return socket.awaits_bell.store(true, Release);
    }
    socket.receiver.lock().leave();
    finish(fd, index, reason);
}

fn finish(fd: i32, index: u32, reason: Native) {
    let socket = socket::at(index);
    if socket.is_native() {
        return;
    }
    socket.set_native(reason);
    report::count_demoted(reason);
    report_line::become_native(socket, fd, reason);
    if socket.read_shut.load(Relaxed) {
        let _ = call::shutdown(fd, libc::SHUT_RD);
    }
    match carried::is_left_by_child(socket) {
        true => delegated::note_left(),
        false => watch::life::became_native(index),
    }
}
