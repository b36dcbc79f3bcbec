//! How the other end came to its end, as TCP would have shown it.
//!
//! An end that closes says so by flags. One that is killed, or whose exec closes the descriptor,
//! says nothing, and the end of its shadow tells only that it is gone: unread bells make the
//! kernel reset it where everything was read, and unread bytes of the ring are nothing to it. TCP
//! would have reset the connection exactly when bytes lay unread, and that shows in the lane.
//!
//! What `shadow` learned is judged once, at the first look after it and before more is written.
//! From then on this end is in the states that the kernel's socket would be in: at the end of
//! what comes in, with an error to be told once, closed.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heliostat_abi::session::report::Counter;
use heliostat_abi::stream::channel::direction::{FIN, RESET, SHUT, SWITCHED, TAKEN_BACK};
use heliostat_base::call;
use heliostat_base::sys::Errno;

use super::socket::{Connection, Socket, Stream};
use crate::report;

/// Brings what is known of the other end up to date; to be called when its lane's flags say RESET
/// or its shadow has ended.
#[cold]
pub fn settle(socket: &Socket, stream: &Stream) {
    let _alone = socket.ending.lock();
    // Flags are raised before a shadow ends, and so looked at after it.
    let has_ended = socket.shadow_ended.load(Acquire);
    if has_ended {
        stream.incoming.release_held();
    }
    if stream.incoming.flags() & RESET != 0 {
        if !socket.broken.load(Relaxed) {
            break_off(socket, error_of_reset(socket, stream));
        }
    } else if has_ended && !socket.end_settled.load(Relaxed) {
        judge(socket, stream);
        socket.end_settled.store(true, Release);
    }
}

/// The error that is to be told, if any: it is told once.
pub fn take_error(socket: &Socket) -> Option<Errno> {
    if socket.pending_error.load(Acquire) == 0 {
        return None;
    }
    match socket.pending_error.swap(0, AcqRel) {
        0 => None,
        errno => Some(Errno(errno)),
    }
}

/// This end is closed in both directions from now on, and tells `error` once unless it is 0.
pub fn break_off(socket: &Socket, error: i32) {
    socket.pending_error.store(error, Release);
    socket.broken.store(true, Release);
}

/// The peer broke the protocol: this connection ends with an ordinary error, at both ends.
#[cold]
pub fn broken<T>(connection: Connection<'_>, answer: T) -> T {
    report::count(Counter::Corrupt);
    cut_off(connection);
    answer
}

/// Ends this connection with a reset at both ends: what was to be sent never is.
#[cold]
pub fn cut_off(connection: Connection<'_>) {
    let Connection { fd, socket, stream } = connection;
    stream.outgoing.raise(RESET);
    break_off(socket, libc::ECONNRESET);
    socket.end_settled.store(true, Release);
    socket.shadow_ended.store(true, Release);
    call::reset(fd);
}

/// True when nothing more comes in, and it is no error: the other end sent a FIN, or would have.
pub fn is_in_order(socket: &Socket, flags: u32) -> bool {
    flags & FIN != 0 || socket.ended_in_order.load(Acquire)
}

fn judge(socket: &Socket, stream: &Stream) {
    let errno = socket.shadow_error.load(Acquire);
    let is_told_by_kernel = !matches!(errno, 0 | libc::ECONNRESET | libc::EPIPE);
    if is_told_by_kernel {
        return break_off(socket, errno);
    }
    let flags = stream.incoming.flags();
    if flags & SHUT != 0 && errno == 0 {
        return socket.ended_in_order.store(true, Release);
    }
    let tail = stream.outgoing.tail();
    // A bell that went out after the end was answered by a reset, which says EPIPE: what was
    // written for it was written to nobody.
    let alive_until = match errno {
        libc::EPIPE => socket.bell_at.load(Relaxed),
        _ => tail,
    };
    if socket.broken.load(Relaxed) {
        return; // by a write to a peer that had left
    }
    if had_unread(stream, alive_until, errno) {
        return break_off(socket, error_of_reset(socket, stream));
    }
    socket.ended_in_order.store(true, Release);
    if alive_until != tail {
        break_off(socket, libc::EPIPE);
    }
}

/// Did the other end leave bytes unread that were written before `position`? After a switch only
/// the kernel knows.
fn had_unread(stream: &Stream, position: u64, errno: i32) -> bool {
    let flags = stream.outgoing.flags();
    let left = position.wrapping_sub(stream.outgoing.head()) as i64;
    // What went over the shadow before the ring, too.
    let before_ring = stream.outgoing.prefix_left() != Some(0);
    let in_ring = (left > 0 || before_ring) && flags & TAKEN_BACK == 0;
    // One that has not even taken the bell of the switch was reset for that bell.
    let has_followed = flags & SWITCHED != 0 && stream.outgoing.bells_pending() == 0;
    in_ring || has_followed && errno == libc::ECONNRESET
}

/// What the kernel tells of a reset: nothing where both directions had ended, a broken pipe after
/// the other end's FIN.
fn error_of_reset(socket: &Socket, stream: &Stream) -> i32 {
    match (stream.incoming.flags() & FIN != 0, socket.write_shut.load(Relaxed)) {
        (true, true) => 0,
        (true, false) => libc::EPIPE,
        (false, _) => libc::ECONNRESET,
    }
}
