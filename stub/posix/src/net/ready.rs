//! What poll(2) would say of a direct stream, read from memory alone.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use heliostat_abi::stream::channel::direction::{FIN, RESET, SWITCHED, TAKEN_BACK};

use super::socket::{Socket, Stream};
use super::{carried, end};

/// Readable (the numbers are those of epoll(7) and poll(2) alike).
pub const IN: u32 = libc::EPOLLIN as u32;
/// Writable.
pub const OUT: u32 = libc::EPOLLOUT as u32;
/// The peer will send no more.
pub const RDHUP: u32 = libc::EPOLLRDHUP as u32;
/// Both directions have ended.
pub const HUP: u32 = libc::EPOLLHUP as u32;
/// An error is to be told.
pub const ERR: u32 = libc::EPOLLERR as u32;
/// Readable in the words of the old names, which poll reports alike for TCP.
pub const RDNORM: u32 = libc::EPOLLRDNORM as u32;
/// Writable in the words of the old names.
pub const WRNORM: u32 = libc::EPOLLWRNORM as u32;

/// What reading has to say: `IN`, `RDHUP`, `HUP`, `ERR`. True beside it when the peer switched to
/// the kernel's path and every byte before that has been read.
#[inline]
pub fn incoming(socket: &Socket, stream: &Stream) -> (u32, bool) {
    let is_empty = stream.incoming.unread() == Ok(0);
    // What another process of this end has asked for is nothing that this one may read.
    let is_others = !is_empty && socket.is_frozen_by_other(stream);
    let mut ready = if is_empty || is_others { 0 } else { IN | RDNORM };
    let flags = stream.incoming.flags();
    let ended = socket.shadow_ended.load(Acquire);
    if flags == 0 && !ended && !socket.read_shut.load(Relaxed) {
        return (ready, false);
    }
    if ended && carried::has_let_go(socket, stream) {
        return (ready, true);
    }
    let is_read = is_empty || (is_others && flags & TAKEN_BACK != 0);
    let has_switched = flags & SWITCHED != 0 && is_read;
    if ended || flags & RESET != 0 {
        end::settle(socket, stream);
    }
    let is_broken = socket.broken.load(Acquire);
    if flags & FIN != 0 || ended || is_broken || socket.read_shut.load(Relaxed) {
        ready |= IN | RDNORM | RDHUP;
        if is_broken || socket.write_shut.load(Relaxed) {
            ready |= HUP;
        }
    }
    if socket.pending_error.load(Relaxed) != 0 {
        ready |= ERR;
    }
    (ready, has_switched)
}

/// What writing has to say: `OUT` when a third of the ring is free, or nobody reads any more.
#[inline]
pub fn outgoing(socket: &Socket, stream: &Stream) -> u32 {
    let known = stream.outgoing.room_since(socket.head_seen.load(Relaxed));
    if known.is_some_and(|room| stream.outgoing.is_roomy(room)) {
        return OUT | WRNORM;
    }
    let roomy = stream.outgoing.room().map_or(true, |room| stream.outgoing.is_roomy(room));
    let gone = socket.write_shut.load(Relaxed)
        || socket.shadow_ended.load(Relaxed)
        || stream.slot.peer_left(stream.side)
        // This end is about to switch, and no bell comes any more.
        || stream.incoming.is_reader_leaving();
    match roomy || gone {
        true => OUT | WRNORM,
        false => 0,
    }
}
