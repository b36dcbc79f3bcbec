//! What poll(2) would say of early streams: the kernel is asked where the lanes do not know.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use heliostat_abi::stream::channel::direction::SWITCHED;
use heliostat_abi::stream::channel::SlotState;
use heliostat_base::call;

use super::proof::{self, Proof};
use super::{is_unanswered, settles, start_by_reading, BELL_PAUSE_NS};
use crate::net::channel::Side;
use crate::net::ready::{self, ERR, HUP, IN, OUT, RDHUP, RDNORM, WRNORM};
use crate::net::shadow;
use crate::net::socket::{Connection, Socket, Stage};

/// True when payload lies on the shadow, in front of the bells.
pub fn has_payload(connection: Connection<'_>) -> bool {
    let Connection { fd, socket, stream } = connection;
    if socket.stage().is_kernels() {
        return call::bytes_queued(fd).is_ok_and(|count| count > 0);
    }
    socket.reads_shadow() && !settles(connection) && {
        shadow::has_stray_bytes(fd, socket, &stream.incoming)
    }
}

/// As `ready::incoming` for an early stream. The kernel is asked only where it `may_know` more
/// than what it was asked before. True beside the events when `demote::follow` has to be called:
/// the connection goes native, or the kernel has told an end.
pub fn incoming(connection: Connection<'_>, may_know: bool) -> (u32, bool) {
    let Connection { socket, stream, .. } = connection;
    start_by_reading(connection);
    if socket.stage() == Stage::Accepted && stream.slot.state() != SlotState::Claimed {
        match proof::look(connection) {
            Proof::False => return (0, true),
            Proof::True | Proof::Unknown => {}
        }
    }
    match socket.stage() {
        Stage::Offered | Stage::Accepted => kernels(connection, may_know),
        Stage::Started => started(connection, may_know),
        Stage::Settled | Stage::Undecided => ready::incoming(socket, stream),
    }
}

/// While all is the kernel's.
fn kernels(connection: Connection<'_>, may_know: bool) -> (u32, bool) {
    let Connection { fd, socket, stream } = connection;
    let is_open = match stream.slot.state() {
        SlotState::Claimed | SlotState::Started | SlotState::Proven => true,
        state => state == SlotState::Offered && stream.side == Side::Client,
    };
    if !is_open || !may_know {
        return (0, !is_open);
    }
    let news = socket.shadow_news.load(Acquire);
    let events = call::events_now(fd, libc::POLLIN | libc::POLLRDHUP) as u16 as u32;
    if events == 0 {
        socket.shadow_news_read.store(news, Release);
        return (0, false);
    }
    if events & (RDHUP | HUP | ERR) != 0 || is_unanswered(socket, stream) {
        return (0, true);
    }
    (IN | RDNORM, false)
}

/// While the own ring is begun, and the peer's prefix is not read.
fn started(connection: Connection<'_>, may_know: bool) -> (u32, bool) {
    let Connection { fd, socket, stream } = connection;
    if settles(connection) {
        return ready::incoming(socket, stream);
    }
    let mut readable = 0;
    if may_know {
        let news = socket.shadow_news.load(Acquire);
        let events = call::events_now(fd, libc::POLLIN | libc::POLLRDHUP) as u16 as u32;
        if settles(connection) {
            return ready::incoming(socket, stream);
        }
        if events == 0 {
            socket.shadow_news_read.store(news, Release);
        }
        if events & IN != 0 {
            readable = IN | RDNORM;
        }
        // How it ended is judged: a client that leaves bells unread resets a shadow whose stream
        // has ended in order.
        shadow::learn(fd, socket, events);
    }
    let (mut now, _) = ready::incoming(socket, stream);
    let tells_all = [&socket.read_shut, &socket.shadow_ended, &socket.broken];
    if !tells_all.iter().any(|flag| flag.load(Relaxed)) {
        // What the ring holds comes behind the rest of the prefix, which may never come.
        now &= !(IN | RDNORM);
    }
    now |= readable;
    // An acceptor that has switched without a ring begun has all on the shadow.
    let is_unbegun = stream.side == Side::Client && stream.slot.state() == SlotState::Started;
    (now, is_unbegun && stream.incoming.flags() & SWITCHED != 0)
}

/// As `ready::outgoing` for an early stream.
pub fn outgoing(connection: Connection<'_>) -> u32 {
    let Connection { fd, socket, stream } = connection;
    if !sends_on_shadow(socket) {
        return ready::outgoing(socket, stream);
    }
    if socket.starved.load(Relaxed) && !has_room(fd) {
        0
    } else {
        OUT | WRNORM
    }
}

/// What a thread that waits for room sleeps for on the shadow, and the longest pause between two
/// looks, if it must look by itself: behind payload that nobody reads comes no bell.
pub fn room_events(connection: Connection<'_>) -> (i16, Option<u64>) {
    let Connection { socket, .. } = connection;
    if sends_on_shadow(socket) {
        return (libc::POLLOUT, None);
    }
    match has_payload(connection) {
        true => (libc::POLLRDHUP, Some(BELL_PAUSE_NS)),
        false => (libc::POLLIN | libc::POLLRDHUP, None),
    }
}

/// True while what is sent goes over the shadow, and the ring says nothing of room.
pub fn sends_on_shadow(socket: &Socket) -> bool {
    socket.stage().is_kernels()
}

/// True when the kernel says that nothing can be sent or received any more.
pub fn has_failed(fd: i32) -> bool {
    call::events_now(fd, 0) & (libc::POLLERR | libc::POLLHUP) != 0
}

/// True when the kernel takes more bytes, or would say why not.
pub fn has_room(fd: i32) -> bool {
    call::events_now(fd, libc::POLLOUT) != 0
}

/// True when a thread that waits for bytes has to look again.
pub fn has_come(connection: Connection<'_>) -> bool {
    let (events, is_followed) = incoming(connection, true);
    events & (IN | ERR) != 0 || is_followed
}
