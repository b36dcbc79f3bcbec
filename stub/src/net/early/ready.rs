//! What poll(2) would say of early streams: the kernel is asked where the lanes do not know.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heliostat_abi::channel::direction::SWITCHED;
use heliostat_abi::channel::SlotState;
use heliostat_base::call;
use heliostat_base::sys::Errno;

use super::{settles, Stage, BELL_PAUSE_NS};
use crate::event::ready::{self, ERR, IN, OUT, RDNORM, WRNORM};
use crate::net::channel::Side;
use crate::net::shadow;
use crate::net::socket::{Socket, Stream};

/// True when payload lies on the shadow, in front of the bells.
pub fn has_payload(fd: i32, socket: &Socket, stream: &Stream) -> bool {
    socket.reads_shadow() && !settles(socket, stream) && {
        shadow::has_stray_bytes(fd, socket, &stream.incoming)
    }
}

/// As `ready::incoming` for an early stream. The kernel is asked only where it `may_know` more
/// than what it was asked before. True beside the events when the connection goes native:
/// `demote::follow`.
pub fn incoming(fd: i32, socket: &Socket, stream: &Stream, may_know: bool) -> (u32, bool) {
    match (socket.stage(), stream.slot.state()) {
        (Stage::Offered, SlotState::Offered) => {
            (0, may_know && call::events_now(fd, libc::POLLIN | libc::POLLRDHUP) != 0)
        }
        (Stage::Accepted, SlotState::Claimed | SlotState::Started) => {
            accepted(fd, socket, stream, may_know)
        }
        (stage, SlotState::Claimed | SlotState::Started) => {
            if stage == Stage::Offered && socket.see_claim() {
                // What the shadow said before was not believed to be the end of a stream.
                shadow::probe(fd, socket);
            }
            ready::incoming(socket, stream)
        }
        _ => (0, true),
    }
}

/// True when a client must go native: nobody took the offer, or the claim was given up.
pub fn goes_native(fd: i32, socket: &Socket, stream: &Stream) -> bool {
    stream.side == Side::Client && incoming(fd, socket, stream, true).1
}

/// The shadow's error that ended a client's sleep: to be told, since the kernel tells it once.
pub fn unclaimed_error(socket: &Socket, stream: &Stream) -> Option<Errno> {
    let is_unclaimed = stream.slot.state() == SlotState::Offered;
    let errno = if is_unclaimed { socket.shadow_error.swap(0, AcqRel) } else { 0 };
    (errno != 0).then_some(Errno(errno))
}

fn accepted(fd: i32, socket: &Socket, stream: &Stream, may_know: bool) -> (u32, bool) {
    if settles(socket, stream) {
        return ready::incoming(socket, stream);
    }
    let mut readable = 0;
    if may_know {
        let news = socket.shadow_news.load(Acquire);
        let events = call::events_now(fd, libc::POLLIN | libc::POLLRDHUP) as u16 as u32;
        if settles(socket, stream) {
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
    let is_switched = stream.incoming.flags() & SWITCHED != 0;
    (now, is_switched && stream.slot.state() == SlotState::Claimed)
}

/// As `ready::outgoing` for an early stream.
pub fn outgoing(fd: i32, socket: &Socket, stream: &Stream) -> u32 {
    if !sends_on_shadow(socket, stream) {
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
pub fn room_events(fd: i32, socket: &Socket, stream: &Stream) -> (i16, Option<u64>) {
    if sends_on_shadow(socket, stream) {
        return (libc::POLLOUT, None);
    }
    match has_payload(fd, socket, stream) {
        true => (libc::POLLRDHUP, Some(BELL_PAUSE_NS)),
        false => (libc::POLLIN | libc::POLLRDHUP, None),
    }
}

/// True while what a client sends goes over the shadow, and its ring says nothing of room.
pub fn sends_on_shadow(socket: &Socket, stream: &Stream) -> bool {
    let is_client = stream.side == Side::Client && socket.is_early();
    is_client && stream.slot.state() == SlotState::Offered
}

/// True when the kernel takes more bytes, or would say why not.
pub fn has_room(fd: i32) -> bool {
    call::events_now(fd, libc::POLLOUT) != 0
}

/// True when a thread that waits for bytes has to look again.
pub fn has_come(fd: i32, socket: &Socket, stream: &Stream) -> bool {
    let (events, goes_native) = incoming(fd, socket, stream, true);
    events & (IN | ERR) != 0 || goes_native
}
