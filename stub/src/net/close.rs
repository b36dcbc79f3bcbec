//! Closing and shutting down: the same end the kernel would have shown to the other side.

use std::sync::atomic::Ordering::{Relaxed, Release};

use heliostat_abi::channel::direction::{FIN, RESET};
use heliostat_abi::channel::SlotState;
use heliostat_abi::code::Native::DoneEarly;
use heliostat_base::call;

use super::socket::{self, Socket, Stream};
use super::{demote, shadow};
use crate::event::epoll;
use crate::thread::Critical;
use crate::Answer;

/// Before the kernel closes `fd`, the last one of connection `index` or one of several.
pub fn closing(fd: i32, index: u32) {
    let _critical = Critical::enter();
    let socket = socket::at(index);
    if !socket.release() {
        return;
    }
    epoll::forget_socket(index);
    if let Some(stream) = socket.stream() {
        end(fd, index, socket, &stream);
    }
    socket::free(index);
}

fn end(fd: i32, index: u32, socket: &Socket, stream: &Stream) {
    if socket.holder_given.swap(false, Relaxed) {
        stream.slot.share(stream.side); // that exec failed, and we are still here
    }
    if !stream.slot.is_last_holder(stream.side) {
        return;
    }
    if socket.unclaimed.load(Relaxed) && demote::withdraw(fd, index, socket, stream, DoneEarly) {
        return;
    }
    finish(fd, socket, stream);
}

/// Ends the outgoing half as the kernel would, and leaves the slot.
fn finish(fd: i32, socket: &Socket, stream: &Stream) {
    let unread = stream.incoming.unread().is_ok_and(|bytes| bytes > 0);
    let is_reset = socket.closes_with_reset.load(Relaxed);
    if unread || is_reset || socket.broken.load(Relaxed) {
        // The kernel resets a connection that is closed with unread bytes (RFC 2525, 2.17).
        stream.outgoing.raise(FIN | RESET);
        let _ = call::linger_zero(fd);
    } else {
        stream.outgoing.raise(FIN);
    }
    // Bells left unread would make the kernel reset the shadow instead of ending it.
    shadow::drain(fd, socket, &stream.incoming);
    stream.slot.leave(stream.side);
}

/// Before this process exits: the end of `closing`, but nothing is freed and no lock is waited
/// for, because a signal handler may have interrupted anything.
pub fn exiting(fd: i32, index: u32) {
    let socket = socket::at(index);
    let Some(half) = socket.receiver.try_lock() else { return };
    let Some(stream) = &half.stream else { return };
    if !stream.slot.is_last_holder(stream.side) {
        return;
    }
    if socket.unclaimed.load(Relaxed) && stream.slot.state() != SlotState::Claimed {
        let stream = stream.clone();
        // What a lock's holder, perhaps this very thread, is in the middle of is left to it.
        let is_free = socket.leaving.try_lock().is_some() && socket.sender.try_lock().is_some();
        drop(half);
        if !is_free {
            return;
        }
        demote::withdraw(fd, index, socket, &stream, DoneEarly);
        return;
    }
    finish(fd, socket, stream);
}

/// shutdown(2). Only SHUT_RDWR reaches the shadow: after SHUT_WR bells still have to be rung.
pub fn shutdown(fd: i32, index: u32, how: i32) -> Answer {
    let socket = socket::at(index);
    let stream = socket.stream()?;
    let _critical = Critical::enter();
    if how == libc::SHUT_RD || how == libc::SHUT_RDWR {
        socket.read_shut.store(true, Release);
    }
    if how == libc::SHUT_WR || how == libc::SHUT_RDWR {
        socket.write_shut.store(true, Release);
        let sender = socket.sender.lock();
        sender.stream.as_ref()?;
        stream.outgoing.raise(FIN);
        if stream.outgoing.take_sleeping_reader() {
            shadow::ring_bell(fd, socket, &stream.outgoing);
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
