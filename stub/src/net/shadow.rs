//! The kernel's connection beneath a direct stream: bells, the peer's end, its errors.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heliostat_abi::channel::direction::SWITCHED;
use heliostat_abi::report::Counter;
use heliostat_base::call;
use heliostat_base::clock;
use heliostat_base::sys::Errno;
use heliostat_ring::stream::Lane;

use super::option;
use super::socket::Socket;
use crate::report;

/// A silent peer is looked after this often by calls that do not sleep: some 10 to 30 ms of
/// processor cycles, because reading the cycle counter is cheaper than asking for the time.
const PROBE_PAUSE_CYCLES: u64 = 40_000_000;
/// Bell bytes drained by one call.
const DRAIN_BYTES: usize = 256;

/// Wakes the peer: one byte on the shadow, counted before it is sent so that the peer can tell
/// bells from payload. Called under the sender's lock of this end, and never after its switch.
#[cold]
pub fn ring_bell(fd: i32, socket: &Socket, outgoing: &Lane) {
    if outgoing.flags() & SWITCHED == 0 {
        ring_bell_around(fd, socket, outgoing, || {});
    }
}

/// Counts a bell, does `between`, and rings it.
pub fn ring_bell_around(fd: i32, socket: &Socket, outgoing: &Lane, between: impl FnOnce()) {
    option::prepare_for_bells(fd, socket);
    outgoing.count_bell();
    between();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    if call::send(fd, &[0], flags).is_err() {
        // A full buffer holds bells enough to wake anybody; a broken one needs none.
        outgoing.uncount_bell();
    }
    report::count(Counter::Bells);
}

/// Takes the bells that were rung off the shadow, never a byte of payload.
pub fn drain(fd: i32, socket: &Socket, incoming: &Lane) {
    if incoming.bells_pending() == 0 {
        return;
    }
    // Two threads that both counted the same bell would take a byte of payload with it.
    let _alone = socket.draining.lock();
    let mut bytes = [0; DRAIN_BYTES];
    loop {
        let pending = incoming.bells_pending() as usize;
        if pending == 0 || pending > 1 << 24 {
            return;
        }
        match call::recv(fd, &mut bytes[..pending.min(DRAIN_BYTES)], libc::MSG_DONTWAIT) {
            Ok(0) => return socket.shadow_ended.store(true, Release),
            Ok(count) => incoming.bells_drained(count as u32),
            Err(Errno(libc::EAGAIN | libc::EINTR)) => return,
            Err(errno) => return note_error(socket, errno),
        }
    }
}

/// True when the shadow holds bytes that are neither bells nor what follows a switch. Every bell
/// is counted before it is sent, and nothing else is sent before a switch: such bytes come from a
/// peer that broke the protocol, or from one that never took the offer. One system call.
pub fn has_stray_bytes(fd: i32, socket: &Socket, incoming: &Lane) -> bool {
    let _alone = socket.draining.lock();
    let queued = call::bytes_queued(fd).unwrap_or(0) as u64;
    queued > u64::from(incoming.bells_pending()) && incoming.flags() & SWITCHED == 0
}

/// Looks whether the peer ended or reset the connection; true when that is news.
pub fn probe(fd: i32, socket: &Socket) -> bool {
    let mut events = [libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 }];
    match call::poll(&mut events, 0) {
        Ok(1) => learn(fd, socket, events[0].revents as u32),
        _ => false,
    }
}

/// `probe`, but at most once in a while: for calls that would otherwise never meet the kernel.
#[inline]
pub fn probe_if_stale(fd: i32, socket: &Socket) -> bool {
    let now = clock::cycles();
    if now.wrapping_sub(socket.probed_at.load(Relaxed)) < PROBE_PAUSE_CYCLES {
        return false;
    }
    socket.probed_at.store(now, Relaxed);
    probe(fd, socket)
}

/// Notes what poll or epoll said of the shadow; true when that is news.
pub fn learn(fd: i32, socket: &Socket, events: u32) -> bool {
    let ended = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as u32;
    if events & ended == 0 {
        return false;
    }
    if events & libc::POLLERR as u32 != 0 {
        if let Ok(errno) = call::option(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
            if errno != 0 {
                note_error(socket, Errno(errno));
            }
        }
    }
    !socket.shadow_ended.swap(true, AcqRel)
}

/// Keeps an error of the shadow to be told to the program once.
pub fn note_error(socket: &Socket, errno: Errno) {
    socket.shadow_error.store(errno.0, Release);
    socket.shadow_ended.store(true, Release);
}

/// The error to be told now, if any; it is told once.
pub fn take_error(socket: &Socket) -> Option<Errno> {
    if socket.shadow_error.load(Acquire) == 0 {
        return None;
    }
    match socket.shadow_error.swap(0, AcqRel) {
        0 => None,
        errno => Some(Errno(errno)),
    }
}
