//! Leaving the direct path without losing a byte, whoever asks.
//!
//! Each direction is switched by its writer: bytes before the switch lie in the ring, bytes after
//! it follow on the shadow. An end that cannot read the ring any more (its descriptor goes to
//! another program) freezes its reading and asks the writer to take the unread bytes back and
//! send them on the shadow instead. Both directions always switch together.
//!
//! ```text
//! initiator                               peer
//! want native on its incoming lane
//! bell, SWITCHED on its outgoing lane --> sees either at its next call or wake-up
//!                                         unread bytes of its outgoing lane back, SWITCHED
//! sees SWITCHED, drains bells         <-- those bytes on the shadow
//! ```

use std::sync::atomic::Ordering::{Relaxed, Release};

use heliostat_abi::channel::direction::{SWITCHED, TAKEN_BACK};
use heliostat_abi::code::Native;
use heliostat_abi::limits::DEMOTE_DEADLINE_MS;
use heliostat_abi::report::Counter;
use heliostat_base::{call, clock, spin};

use super::socket::{self, Socket, Stream};
use super::{option, relay, shadow, side_lock};
use crate::report;
use crate::thread::Critical;

/// Room asked of the kernel for bytes taken back: a whole ring goes out in one call.
const TAKE_BACK_BUFFER: i32 = 1 << 20;

/// Moves connection `index` to the kernel's path: because the peer switched, or because this end
/// has to. Where the descriptor itself goes to somebody without the ring, both directions must
/// have switched before this returns: it blocks for the peer at most for the deadline of
/// `abi::limits`, and for one that does not answer a relay stands in. Otherwise only what goes out
/// switches now, and the reader follows when it meets the peer's switch.
#[cold]
pub fn leave(fd: i32, index: u32, reason: Native) {
    let _critical = Critical::enter();
    let socket = socket::at(index);
    let _alone = socket.leaving.lock();
    let Some(stream) = socket.stream() else { return finish(fd, index, reason) };
    if withdraw_locked(fd, index, socket, &stream, reason) {
        return;
    }
    let is_complete = matches!(reason, Native::Exec | Native::Passed | Native::Nested);
    if is_complete {
        freeze(socket, &stream);
    }
    switch_outgoing(fd, socket, &stream);
    if !is_complete {
        if stream.incoming.flags() & SWITCHED != 0 {
            finish_incoming(fd, index, socket, &stream, reason);
        }
        return;
    }
    match await_switch(fd, socket, &stream) {
        true => finish_incoming(fd, index, socket, &stream, reason),
        false => leave_alone(fd, index, socket, &stream, reason),
    }
}

/// Stops this end's reading and asks the writer to take the unread bytes back. Under the
/// receiver's lock, so that no read is under way while the writer looks at the position.
fn freeze(socket: &Socket, stream: &Stream) {
    let receiver = socket.receiver.lock();
    if receiver.stream.is_some() {
        let _shared = side_lock::enter(socket, stream.incoming.read_lock());
        socket.frozen.store(true, Release);
        stream.incoming.want_native();
    }
}

/// Takes an offer back that nobody claimed: what was written into the ring goes out on the
/// kernel's connection. False when it was claimed, and the stream stays direct.
pub fn withdraw(fd: i32, index: u32, socket: &Socket, stream: &Stream, reason: Native) -> bool {
    let _alone = socket.leaving.lock();
    withdraw_locked(fd, index, socket, stream, reason)
}

fn withdraw_locked(fd: i32, index: u32, socket: &Socket, stream: &Stream, reason: Native) -> bool {
    if !socket.unclaimed.load(Relaxed) || !stream.slot.withdraw() {
        socket.unclaimed.store(false, Relaxed);
        return false;
    }
    let mut receiver = socket.receiver.lock();
    let mut sender = socket.sender.lock();
    let bytes = stream.outgoing.take_back().unwrap_or_default();
    (receiver.stream, sender.stream) = (None, None);
    drop(receiver);
    option::restore_delay(fd, socket);
    send_all(fd, &bytes);
    shut_shadow(fd, socket);
    drop(sender);
    stream.slot.clone().abandon();
    socket.unclaimed.store(false, Release);
    finish(fd, index, reason);
    true
}

/// Switches what goes out; takes unread bytes back when the reader asked for it. One bell is
/// counted before the switch and rung after it, so that the peer looks once more, and knows that
/// this byte is not payload.
fn switch_outgoing(fd: i32, socket: &Socket, stream: &Stream) {
    let mut sender = socket.sender.lock();
    if sender.stream.take().is_none() {
        return;
    }
    let _shared = side_lock::enter(socket, stream.outgoing.write_lock());
    if stream.outgoing.flags() & SWITCHED != 0 {
        return; // another holder of this end has done it
    }
    let wanted = stream.outgoing.accept_want();
    let bytes = match wanted {
        true => stream.outgoing.take_back().unwrap_or_default(),
        false => Vec::new(),
    };
    shadow::ring_bell_around(fd, socket, &stream.outgoing, || {
        stream.outgoing.raise(if wanted { SWITCHED | TAKEN_BACK } else { SWITCHED });
    });
    option::restore_delay(fd, socket);
    send_all(fd, &bytes);
    shut_shadow(fd, socket);
}

/// A half-closed stream half-closes its shadow, which stayed open for bells until now.
fn shut_shadow(fd: i32, socket: &Socket) {
    if socket.write_shut.load(Relaxed) {
        let _ = call::shutdown(fd, libc::SHUT_WR);
    }
}

/// Sends what was taken back. The buffer is sized for all of it, so that a peer that does not
/// read cannot hold us; what the kernel refuses even so is a reset connection.
fn send_all(fd: i32, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let _ = call::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, TAKE_BACK_BUFFER);
    let mut sent = 0;
    while sent < bytes.len() {
        match call::send(fd, &bytes[sent..], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(count) => sent += count,
            Err(_) => return call::reset(fd),
        }
    }
}

fn await_switch(fd: i32, socket: &Socket, stream: &Stream) -> bool {
    let ends = clock::monotonic_ns() + DEMOTE_DEADLINE_MS * 1_000_000;
    let mut turns = spin::Spin::new();
    while stream.incoming.flags() & SWITCHED == 0 {
        shadow::probe_if_stale(fd, socket);
        let is_gone = stream.slot.peer_left(stream.side) || socket.shadow_ended.load(Relaxed);
        if is_gone || clock::monotonic_ns() > ends {
            return false;
        }
        if turns.turn() {
            // The peer may be asleep in a call that only the clock ends; be polite to the core.
            let _ = call::poll(&mut [], 1);
        }
    }
    true
}

/// The incoming lane after its switch: what is left in the ring must have been read or taken
/// back; then the bells go, and the shadow's next byte is payload.
fn finish_incoming(fd: i32, index: u32, socket: &Socket, stream: &Stream, reason: Native) {
    let taken_back = stream.incoming.flags() & TAKEN_BACK != 0;
    if !taken_back && stream.incoming.unread().is_ok_and(|unread| unread > 0) {
        if socket.frozen.load(Relaxed) {
            // The peer switched by itself just when it was asked: its bytes are still in the ring.
            leave_alone(fd, index, socket, stream, reason);
        }
        return; // the reader comes back here once it has read them
    }
    let ends = clock::monotonic_ns() + DEMOTE_DEADLINE_MS * 1_000_000;
    while stream.incoming.bells_pending() != 0 && clock::monotonic_ns() < ends {
        shadow::drain(fd, socket, &stream.incoming);
        spin::yield_now();
    }
    socket.receiver.lock().stream = None;
    finish(fd, index, reason);
}

fn finish(fd: i32, index: u32, reason: Native) {
    let socket = socket::at(index);
    if socket.is_native() {
        return;
    }
    socket.set_native(reason);
    report::count_demoted(reason);
    option::report_native(socket, fd, reason);
    if socket.read_shut.load(Relaxed) {
        let _ = call::shutdown(fd, libc::SHUT_RD);
    }
    crate::event::epoll::became_native(index);
}

/// The peer does not help. If it has left, a fresh local connection that holds what it sent, and
/// then ends, takes the descriptor's place; if it only does not answer, a relay does.
fn leave_alone(fd: i32, index: u32, socket: &Socket, stream: &Stream, reason: Native) {
    let has_left = stream.slot.peer_left(stream.side) || socket.shadow_ended.load(Relaxed);
    if !has_left {
        return match relay::start(fd, index, socket, stream) {
            true => {
                socket.receiver.lock().stream = None;
                finish(fd, index, reason);
            }
            false if await_switch(fd, socket, stream) && !socket.is_native() => {
                finish_incoming(fd, index, socket, stream, reason)
            }
            false => reset(fd, index, socket),
        };
    }
    let mut bytes = vec![0; stream.incoming.unread().unwrap_or(0) as usize];
    let read = stream.incoming.read(&mut [std::io::IoSliceMut::new(&mut bytes)], false);
    if read.is_err() || call::replace_with_remains(fd, &bytes).is_err() {
        return reset(fd, index, socket);
    }
    socket.receiver.lock().stream = None;
    finish(fd, index, reason);
}

/// Gives the connection up: both ends see an error, not a clean end of a cut stream.
fn reset(fd: i32, index: u32, socket: &Socket) {
    socket.receiver.lock().stream = None;
    socket.sender.lock().stream = None;
    call::reset(fd);
    finish(fd, index, Native::Corrupt);
}

/// The peer broke the protocol: this connection ends with an ordinary error.
#[cold]
pub fn broken<T>(fd: i32, socket: &Socket, answer: T) -> T {
    report::count(Counter::Corrupt);
    socket.broken.store(true, Relaxed);
    socket.shadow_ended.store(true, Release);
    call::reset(fd);
    answer
}

/// Rings from the reading side: there is room again. The receiver's lock is held.
#[cold]
pub fn ring_back(fd: i32, socket: &Socket) {
    if let Some(stream) = &socket.sender.lock().stream {
        shadow::ring_bell(fd, socket, &stream.outgoing);
    }
}
