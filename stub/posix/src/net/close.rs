//! Closing and shutting down: the same end the kernel would have shown to the other side.

use std::sync::atomic::Ordering::{Relaxed, Release};

use heliostat_abi::code::Native::{self, DoneEarly};
use heliostat_abi::stream::channel::direction::{FIN, RESET, SHUT, SWITCHED};
use heliostat_abi::stream::channel::SlotState;
use heliostat_base::call;

use super::channel::Side;
use super::early::proof::{self, Proof};
use super::socket::{self, Connection, Socket, Stage, Stream};
use super::{accept, carried, connecting, delegated, demote, early, shadow, shared, switch, watch};
use crate::report;
use crate::thread::Critical;
use crate::Answer;

/// Before the kernel closes `fd`, the last one of connection `index` or one of several.
pub fn closing(fd: i32, index: u32) {
    let _critical = Critical::enter();
    let socket = socket::at(index);
    if !socket.release() {
        return;
    }
    if let Some(page) = socket.shared_page.swap(0, Relaxed).checked_sub(1) {
        shared::closed(page);
    }
    connecting::give_up(fd, index);
    watch::life::forget_socket(index);
    accept::decide(fd, index, Some(DoneEarly));
    delegated::end_before_close(fd, socket);
    if let Some(stream) = socket.stream() {
        end(Connection::new(fd, socket, &stream));
    }
    give_back_left(socket);
    delegated::drop_hidden(socket);
    socket::free(index);
}

/// The connection has been the kernel's for a while: its slot is given back only now that no thread
/// looks at it any more.
fn give_back_left(socket: &Socket) {
    let left = socket.receiver.lock().left.take();
    left.iter().for_each(|stream| socket.give_slot_back(stream));
}

/// After a leave for an exec(2): nothing of this process, but its descriptor, is there afterwards.
pub fn executing(index: u32) {
    give_back_left(socket::at(index));
}

fn end(connection: Connection<'_>) {
    let Connection { fd, socket, stream } = connection;
    let index = connection.index();
    if socket.holder_given.swap(false, Relaxed) {
        stream.slot.share(stream.side); // that exec failed, and we are still here
    }
    if is_given_up(socket, stream) {
        return socket.let_go_of_left(stream);
    }
    if delegated::is_lost_at_close(connection) {
        return end_lost(connection);
    }
    if !socket.let_go(stream) {
        return;
    }
    if switch::withdraw(fd, index, DoneEarly) || switch::resolve(fd, index, DoneEarly) {
        return;
    }
    if socket.stage() == Stage::Accepted {
        // Not proven, and the client has not said so yet: the end is the kernel's.
        return stream.slot.leave(stream.side);
    }
    early::tell(connection, 0);
    finish(connection);
}

/// The loop that carried the connection was killed: what it had still to send is sent here, and the
/// kernel closes.
fn end_lost(connection: Connection<'_>) {
    let Connection { fd, socket, .. } = connection;
    demote::leave(fd, connection.index(), Native::LoopEnded);
    if !socket.is_native() {
        let _ = call::linger_zero(fd); // bytes are unread in the ring
        socket.receiver.lock().leave();
    }
}

/// Another process that holds this end has given the claim up: the slot may be another stream's.
fn is_given_up(socket: &Socket, stream: &Stream) -> bool {
    stream.side == Side::Server && socket.is_early() && !stream.slot.state().is_stream()
}

/// Another process that held this end has passed the connection on, or given it to another program by
/// exec. Who has it now ends it: its bytes are the kernel's, and so are the socket's options.
fn is_passed_by_other(socket: &Socket, stream: &Stream) -> bool {
    socket.is_shared()
        && stream.incoming.is_reader_leaving()
        && stream.outgoing.flags() & SWITCHED != 0
}

/// Ends the outgoing half as the kernel would, and leaves the slot.
fn finish(connection: Connection<'_>) {
    let Connection { fd, socket, stream } = connection;
    if is_passed_by_other(socket, stream) {
        return stream.slot.be_done(stream.side);
    }
    let unread = stream.incoming.unread().is_ok_and(|bytes| bytes > 0)
        || (socket.reads_shadow() && early::is_unread(connection));
    let is_reset = socket.closes_with_reset.load(Relaxed) || socket.broken.load(Relaxed);
    if unread && !is_reset && carried::is_carried(socket) {
        // The loop resets by itself where bytes lie unread, after it has sent what was written.
        stream.outgoing.push();
    } else if unread || is_reset {
        // The kernel resets a connection that is closed with unread bytes (RFC 2525, 2.17).
        stream.outgoing.raise(RESET);
        let _ = call::linger_zero(fd);
    } else {
        stream.outgoing.raise(FIN);
    }
    // Bells left unread would make the kernel reset the shadow instead of ending it.
    shadow::drain(fd, socket, &stream.incoming);
    if stream.side == Side::Client && is_abandoned(connection) {
        stream.slot.leave(Side::Server);
    }
    stream.slot.leave(stream.side);
}

/// Whose session's end tells that an acceptor was killed stands in its claim. Where a late acceptor has
/// written into that, the shadow's end tells it, unless the acceptor has shut its end down only, and may
/// read the ring still.
fn is_abandoned(connection: Connection<'_>) -> bool {
    let Connection { fd, socket, stream } = connection;
    stream.slot.secret().is_none() && {
        shadow::probe(fd, socket);
        shadow::has_ended(socket) && stream.incoming.flags() & SHUT == 0
    }
}

/// Before this process exits: the end of `closing`, but nothing is freed and no lock is waited
/// for, because a signal handler may have interrupted anything.
pub fn exiting(fd: i32, index: u32) {
    let socket = socket::at(index);
    delegated::end_before_close(fd, socket);
    let Some(half) = socket.receiver.try_lock() else { return };
    let Some(stream) = &half.stream else { return };
    let connection = Connection::new(fd, socket, stream);
    if is_given_up(socket, stream) || !socket.let_go(stream) {
        return;
    }
    // Before a ring is begun all is the kernel's, so is the end.
    let is_kernels = match socket.stage() {
        Stage::Offered => stream.slot.withdraw() || stream.slot.retreat(),
        Stage::Accepted => stream.slot.revoke(),
        _ => false,
    };
    if is_kernels {
        // The peer counts the connection as native too: the two numbers belong together.
        return report::count_demoted_at_exit(DoneEarly);
    }
    if socket.stage() == Stage::Accepted && !is_proven(connection) {
        return stream.slot.leave(stream.side);
    }
    early::tell(connection, 0);
    finish(connection);
}

/// As `early::proof::look`, under the receiver's lock, and waiting for no other.
fn is_proven(connection: Connection<'_>) -> bool {
    let Connection { socket, stream, .. } = connection;
    let Some(sender) = socket.sender.try_lock() else { return false };
    let is_started = stream.slot.state() == SlotState::Started;
    let is_proven = is_started && proof::verdict(connection) == Proof::True;
    if is_proven {
        proof::begin(connection, &sender);
    }
    is_proven
}

/// shutdown(2). Only SHUT_RDWR reaches the shadow: after SHUT_WR bells still have to be rung.
pub fn shutdown(fd: i32, index: u32, how: i32) -> Answer {
    let socket = socket::at(index);
    let _critical = Critical::enter();
    if carried::is_carried(socket) && how != libc::SHUT_WR {
        demote::leave_at_once(fd, index, Native::Call);
        return None;
    }
    accept::decide(fd, index, Some(Native::Crossed));
    let begun = socket.stream()?;
    if !early::start_and_tell(Connection::new(fd, socket, &begun))
        && (switch::withdraw(fd, index, DoneEarly) || switch::resolve(fd, index, DoneEarly))
    {
        return None;
    }
    if socket.stage() == Stage::Accepted {
        // It may be proven at any time, and bells need both directions of the shadow.
        demote::leave_at_once(fd, index, DoneEarly);
        return None;
    }
    let stream = socket.stream()?;
    if how == libc::SHUT_RD || how == libc::SHUT_RDWR {
        socket.read_shut.store(true, Release);
    }
    let may_sleep = || stream.incoming.unread() == Ok(0) && socket.armed.lock().readers > 0;
    if how == libc::SHUT_RD && may_sleep() {
        // They sleep on the shadow, whose own end is all that wakes them.
        demote::leave_at_once(fd, index, Native::Call);
        return None;
    }
    if how == libc::SHUT_WR || how == libc::SHUT_RDWR {
        socket.write_shut.store(true, Release);
        let sender = socket.sender.lock();
        sender.stream.as_ref()?;
        stream.outgoing.raise(if how == libc::SHUT_RDWR { FIN | SHUT } else { FIN });
        if stream.outgoing.take_sleeping_reader() {
            shadow::ring_bell(fd, socket, &stream.outgoing, 0);
        }
        drop(sender);
        if stream.outgoing.is_native_wanted() {
            demote::leave(fd, index, Native::PeerAsked); // D3: the reader may not look again
        }
    }
    if how == libc::SHUT_WR {
        return Some(Ok(0));
    }
    if how == libc::SHUT_RDWR {
        return None;
    }
    Some(if how == libc::SHUT_RD { Ok(0) } else { Err(heliostat_base::sys::Errno(libc::EINVAL)) })
}
