//! Bytes held back as by the kernel's socket: MSG_MORE and TCP_CORK.
//!
//! They lie in the ring behind its tail. What pushes them: a send that is not to be continued,
//! TCP_CORK cleared, TCP_NODELAY set, a full segment, a full ring, the end of this direction, and
//! 200 ms, which the reader waits for (see `heliostat_ring`'s `stream::held`). An end that several
//! processes hold holds nothing back, since none of them knows what another one has begun.

use std::sync::atomic::Ordering::Relaxed;

use heliostat_abi::code::Native;
use heliostat_abi::limits::HELD_BACK_NS;
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};
use heliostat_ring::stream::{HeldBack, Lane, MoveError, WriteCache};

use super::shadow::options::{CORK, HOLDS};
use super::side_lock::{self, Half};
use super::socket::{self, Socket};
use super::transfer::Source;
use super::{demote, shadow};
use crate::table::{self, DescriptorKind};

/// True when a send is not as simple as most.
#[inline]
pub(super) fn concerns(socket: &Socket, source: &Source<'_>) -> bool {
    source.is_continued() || socket.delay_options.load(Relaxed) & (CORK | HOLDS) != 0
}

/// Puts bytes behind what is held back already, and pushes what the kernel would send. Under the
/// sender's lock, and the side's. The inner error is a file's.
#[cold]
pub(super) fn send(
    fd: i32,
    socket: &Socket,
    lane: &Lane,
    (cache, segment): (&mut WriteCache, &mut u64),
    source: &Source<'_>,
) -> Result<Result<usize, Errno>, MoveError> {
    let until = clock::monotonic_ns().saturating_add(HELD_BACK_NS);
    let held = match source {
        Source::Buffers(buffers, _) => Ok(lane.hold(buffers, until, cache)?),
        Source::File { fd: file, offset, limit } => {
            lane.hold_from(*file, *offset, *limit, until, cache)?
        }
    };
    Ok(held.map(|HeldBack { bytes, is_news }| {
        let pushed = match bytes {
            0 => 0, // as by the kernel: nothing is pushed by nothing
            _ => push_sent(fd, socket, lane, segment, source.is_continued()),
        };
        announce(fd, socket, lane, pushed, is_news);
        bytes
    }))
}

/// A full ring holds nothing back: who waits for room waits for a reader that has something to read.
/// Under the same locks.
#[cold]
pub fn push_if_full(fd: i32, socket: &Socket, lane: &Lane) {
    if lane.unsent() == Ok(lane.capacity()) {
        announce(fd, socket, lane, lane.push(), false);
    }
}

/// After `pushed` bytes were pushed, or something was held back that a reader does not know.
fn announce(fd: i32, socket: &Socket, lane: &Lane, pushed: u64, is_news: bool) {
    // Whether the next send has to look at what is held.
    match lane.held() {
        0 => socket.delay_options.fetch_and(!HOLDS, Relaxed),
        _ => socket.delay_options.fetch_or(HOLDS, Relaxed),
    };
    if (pushed > 0 || is_news) && lane.take_sleeping_reader() {
        shadow::ring_bell(fd, socket, lane, pushed as usize);
    }
}

/// What goes out at once, after a send.
fn push_sent(fd: i32, socket: &Socket, lane: &Lane, segment: &mut u64, is_continued: bool) -> u64 {
    let is_corked = socket.delay_options.load(Relaxed) & CORK != 0;
    let is_full = lane.unsent() == Ok(lane.capacity());
    if !(is_corked || is_continued) || is_full || socket.is_shared() {
        return lane.push();
    }
    if *segment == 0 {
        // The shadow's segments are as large as the connection's would be.
        let size = call::option(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG).unwrap_or(0);
        *segment = size.max(1) as u64;
    }
    match lane.held() / *segment {
        0 => 0,
        full if is_corked => lane.push_only(full * *segment),
        // Their acknowledgement, which comes at once on one node, pushes what follows.
        _ => lane.push(),
    }
}

/// Pushes what is held back, if there is something.
pub fn push(fd: i32, index: u32) {
    let socket = socket::at(index);
    if socket.delay_options.load(Relaxed) & HOLDS != 0 && push_is_asked(fd, socket) {
        demote::leave(fd, index, Native::PeerAsked);
    }
}

/// True when the reader asked for the kernel's path meanwhile (D3).
fn push_is_asked(fd: i32, socket: &Socket) -> bool {
    let half = socket.sender.lock();
    let Some(stream) = &half.stream else { return false };
    let lane = &stream.outgoing;
    let Some(_shared) = side_lock::enter(socket, stream, Half::Writing) else { return false };
    announce(fd, socket, lane, lane.push(), false);
    lane.is_native_wanted()
}

/// Pushes what any connection holds back: two processes could not know what the other one holds.
pub fn push_before_fork() {
    for (fd, kind) in table::walk(0, u32::MAX) {
        if let DescriptorKind::Socket(index) = kind {
            push(fd, index);
        }
    }
}
