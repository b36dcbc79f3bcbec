//! The kernel's connection beneath a direct stream: bells, the peer's end, its errors.

pub mod options;
pub mod sleepers;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heliostat_abi::session::report::Counter;
use heliostat_abi::stream::channel::direction::SWITCHED;
use heliostat_abi::stream::channel::slot::SECRET_BYTES;
use heliostat_base::call;
use heliostat_base::clock;
use heliostat_base::sys::Errno;
use heliostat_ring::stream::Lane;

use super::carried;
use super::socket::{Socket, Stream};
use crate::thread::Critical;
use crate::{report, waiting};

/// A silent peer is looked after this often by calls that do not sleep: some 10 to 30 ms of
/// processor cycles, because reading the cycle counter is cheaper than asking for the time.
const PROBE_PAUSE_CYCLES: u64 = 40_000_000;
/// Bell bytes drained by one call.
const DRAIN_BYTES: usize = 256;
/// So many calls drain at a time. An honest peer has a few bells under way; one that goes on counting
/// and sending while they are taken is not followed.
const DRAIN_TURNS: usize = 16;
/// More bells than that are nonsense.
pub const BELLS_MAX: u32 = 1 << 24;

/// Wakes the peer, for `written` bytes at the end of the lane: one byte on the shadow, counted
/// before it is sent so that the peer can tell bells from payload. Called under the sender's lock
/// of this end, and never after its switch.
#[cold]
pub fn ring_bell(fd: i32, socket: &Socket, outgoing: &Lane, written: usize) {
    if outgoing.flags() & SWITCHED == 0 {
        ring_bell_around(fd, socket, outgoing, written, || true);
    }
}

/// Counts a bell, does `between`, and rings it: unless that says that nobody listens, or the reader
/// has left and would take it for payload (D3).
pub fn ring_bell_around(
    fd: i32,
    socket: &Socket,
    outgoing: &Lane,
    written: usize,
    between: impl FnOnce() -> bool,
) {
    options::prepare_for_bells(fd, socket);
    socket.bell_at.store(outgoing.tail().wrapping_sub(written as u64), Relaxed);
    outgoing.count_bell();
    let is_listening = between();
    if !is_listening || outgoing.is_silence_wanted() {
        return outgoing.uncount_bell();
    }
    if let Err(errno) = send_bell(fd, socket) {
        // A connection that is broken needs none. Who is asleep beside a full buffer is rung for at
        // the next write again.
        outgoing.uncount_bell();
        if errno == Errno(libc::EAGAIN) {
            outgoing.reader_sleeps();
        }
        if matches!(errno, Errno(libc::ECONNRESET | libc::EPIPE)) && !is_shut(socket) {
            // The peer was gone before these bytes were written, as EPIPE tells `end`.
            note_error(socket, Errno(libc::EPIPE));
        }
    }
    report::count(Counter::Bells);
    waiting::rang();
}

/// Rings from the reading side: there is room again. The receiver's lock is held.
#[cold]
pub fn ring_back(fd: i32, socket: &Socket) {
    if let Some(stream) = &socket.sender.lock().stream {
        ring_bell(fd, socket, &stream.outgoing, 0);
    }
}

/// Sends the byte, behind the secret where that is owed.
fn send_bell(fd: i32, socket: &Socket) -> Result<usize, Errno> {
    if !socket.is_secret_due.load(Relaxed) {
        return send_at_once(fd, socket, &[0]);
    }
    let mut bytes = [0; SECRET_BYTES + 1];
    bytes[..SECRET_BYTES].copy_from_slice(&socket.secret());
    let answer = send_at_once(fd, socket, &bytes);
    socket.is_secret_due.store(answer == Err(Errno(libc::EAGAIN)), Relaxed);
    answer
}

/// Tells the acceptor's secret, of which nobody has to be woken. It was counted as bells. Under the
/// sender's lock.
#[cold]
pub fn tell_secret(fd: i32, socket: &Socket, outgoing: &Lane, written: u64) {
    socket.bell_at.store(outgoing.tail().wrapping_sub(written), Relaxed);
    let answer = send_at_once(fd, socket, &socket.secret());
    socket.is_secret_due.store(answer == Err(Errno(libc::EAGAIN)), Relaxed);
    if matches!(answer, Err(Errno(libc::ECONNRESET | libc::EPIPE))) && !is_shut(socket) {
        note_error(socket, Errno(libc::EPIPE));
    }
}

/// Sends without waiting. What the program's small SO_SNDBUF holds, read by now or not, may be
/// acknowledged late or never: a bell finds room beside it.
fn send_at_once(fd: i32, socket: &Socket, bytes: &[u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let answer = call::send(fd, bytes, flags);
    if answer == Err(Errno(libc::EAGAIN)) && options::widen_for_bells(fd, socket) {
        return call::send(fd, bytes, flags);
    }
    answer
}

/// Takes the bells that were rung off the shadow, never a byte of payload, whoever sleeps there: of a
/// connection that ends.
pub fn drain(fd: i32, socket: &Socket, incoming: &Lane) {
    if has_bells(socket, incoming) {
        let _critical = Critical::enter();
        let _alone = socket.on_shadow.lock();
        take_off(fd, socket, incoming);
    }
}

/// Whether bells were rung that nobody has taken off.
fn has_bells(socket: &Socket, incoming: &Lane) -> bool {
    incoming.bells_pending() != 0 && !socket.reads_shadow()
}

/// How many were taken off. Under the lock of those who sleep there: two threads that both counted the same
/// bell would take a byte of payload with it.
fn take_off(fd: i32, socket: &Socket, incoming: &Lane) -> usize {
    let (mut bytes, mut taken) = ([0; DRAIN_BYTES], 0);
    if socket.is_native() {
        return 0; // what comes is payload, and the slot may be another stream's by now
    }
    for _ in 0..DRAIN_TURNS {
        let pending = incoming.bells_pending();
        if pending == 0 || pending > BELLS_MAX {
            break;
        }
        let wanted = DRAIN_BYTES.min(pending as usize);
        match call::recv(fd, &mut bytes[..wanted], libc::MSG_DONTWAIT) {
            Ok(0) => {
                note_end(socket);
                break;
            }
            Ok(count) => {
                incoming.bells_drained(count as u32);
                taken += count;
            }
            Err(Errno(libc::EAGAIN | libc::EINTR)) => break,
            Err(errno) => {
                note_error(socket, errno);
                break;
            }
        }
    }
    taken
}

/// True when the shadow holds bytes that are neither bells nor what follows a switch. Every bell
/// is counted before it is sent, and nothing else is sent before a switch: such bytes come from a
/// peer that broke the protocol, or from one that never took the offer. One system call.
pub fn has_stray_bytes(fd: i32, socket: &Socket, incoming: &Lane) -> bool {
    let _critical = Critical::enter();
    let _alone = socket.on_shadow.lock();
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

/// `probe` where the peer may have ended without a word: the first time that is said, and then once
/// in a while, since a child of its process may hold the stream still. Loads only until then.
#[inline]
pub fn doubt(fd: i32, socket: &Socket, stream: &Stream) -> bool {
    stream.slot.peer_may_be_gone(stream.side) && probe_doubtful(fd, socket)
}

#[cold]
fn probe_doubtful(fd: i32, socket: &Socket) -> bool {
    match socket.doubted.swap(true, Relaxed) {
        false => probe(fd, socket),
        true => probe_if_stale(fd, socket),
    }
}

/// Notes what poll or epoll said of the shadow; true when that is news.
pub fn learn(fd: i32, socket: &Socket, events: u32) -> bool {
    let ended = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as u32;
    if events & ended == 0 {
        return false;
    }
    if carried::has_come_back(socket) {
        return false; // the kernel tells it, and its error, to who has read what came before
    }
    if socket.stage().is_kernels() {
        return true; // no stream's end: the kernel tells it when the connection is native
    }
    let is_error = events & libc::POLLERR as u32 != 0;
    if !is_error && is_shut(socket) {
        return false;
    }
    if is_error {
        if let Ok(errno) = call::option(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
            if errno != 0 {
                note_error(socket, Errno(errno));
            }
        }
    }
    !socket.shadow_ended.swap(true, AcqRel)
}

/// This end has shut its shadow down itself: then the kernel says that it has ended, whatever the
/// peer does.
fn is_shut(socket: &Socket) -> bool {
    socket.write_shut.load(Relaxed) && socket.read_shut.load(Relaxed)
}

/// An error that ended a sleep while all is the kernel's: to be told, since the kernel tells it once.
pub fn take_kernels_error(socket: &Socket) -> Option<Errno> {
    let is_kernels = socket.stage().is_kernels() && socket.shadow_error.load(Relaxed) != 0;
    is_kernels.then(|| Errno(socket.shadow_error.swap(0, AcqRel)))
}

/// Keeps it.
pub fn keep_kernels_error(socket: &Socket, errno: Errno) {
    socket.shadow_error.store(errno.0, Release);
}

/// True when the shadow has come to its end.
pub fn has_ended(socket: &Socket) -> bool {
    socket.shadow_ended.load(Acquire)
}

/// The shadow came to its end.
pub fn note_end(socket: &Socket) {
    if !is_shut(socket) {
        socket.shadow_ended.store(true, Release);
    }
}

/// Keeps the error with which the shadow ended; the first one counts.
pub fn note_error(socket: &Socket, errno: Errno) {
    let _ = socket.shadow_error.compare_exchange(0, errno.0, AcqRel, Relaxed);
    socket.shadow_ended.store(true, Release);
}
