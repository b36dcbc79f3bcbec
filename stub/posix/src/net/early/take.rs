//! Taking payload off the shadow, up to where bells begin.

use std::io::IoSliceMut;
use std::sync::atomic::Ordering::{Acquire, Release};

use heliostat_abi::stream::channel::SlotState;
use heliostat_base::call;
use heliostat_base::sys::Errno;
use heliostat_ring::stream::MoveError;

use super::proof::{self, Proof};
use super::{keeps_offer, start_by_reading};
use crate::net::channel::Side;
use crate::net::shadow;
use crate::net::socket::{Connection, Socket, Stage, Stream};

/// What a peer that is gone can have left in the kernel, with its buffers at their usual largest.
const REMAINS_MAX: usize = 16 << 20;

/// What a look at the shadow gave.
pub enum Taken {
    /// Payload.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The peer is gone, and all it has sent on the shadow is read: `end` knows how.
    End,
    /// The kernel's error, or the caller's.
    Failed(Errno),
    /// The prefix is read: the ring is next.
    Ring,
    /// There is no stream any more, or the kernel knows best: `demote::follow`.
    Native,
    /// The peer's words contradict what it sent.
    Corrupt,
}

/// How much of the shadow is payload.
#[derive(PartialEq)]
enum PrefixLeft {
    /// All that lies there, if the answer is the same afterwards.
    All,
    /// So many bytes, and then the secret, if the offer is what it says.
    Unproven(u64),
    /// So many bytes, and then bells.
    Bytes(u64),
    Native,
    Corrupt,
}

fn left(socket: &Socket, stream: &Stream) -> PrefixLeft {
    match (socket.stage(), stream.side, stream.slot.state()) {
        (Stage::Offered, _, SlotState::Offered | SlotState::Claimed) => PrefixLeft::All,
        (Stage::Accepted, _, SlotState::Claimed) => PrefixLeft::All,
        (Stage::Accepted, _, SlotState::Started) => {
            PrefixLeft::Unproven(stream.incoming.prefix_left().unwrap_or(0))
        }
        (Stage::Accepted, _, SlotState::Proven) if proof::follow_other(socket) => {
            bytes_left(stream)
        }
        (Stage::Accepted, _, _) => PrefixLeft::Native,
        // Another thread is just beginning the ring.
        (Stage::Offered | Stage::Started, Side::Client, SlotState::Started) => PrefixLeft::All,
        (_, Side::Client, SlotState::Proven) => bytes_left(stream),
        (Stage::Offered, _, _) => PrefixLeft::Native,
        (_, Side::Server, SlotState::Started | SlotState::Proven) => bytes_left(stream),
        // With a ring begun there is no way back.
        _ => PrefixLeft::Corrupt,
    }
}

fn bytes_left(stream: &Stream) -> PrefixLeft {
    stream.incoming.prefix_left().map_or(PrefixLeft::Corrupt, PrefixLeft::Bytes)
}

/// Takes payload off the shadow of an early stream. Under the receiver's lock.
pub fn take(connection: Connection<'_>, buffers: &mut [IoSliceMut<'_>], flags: i32) -> Taken {
    let Connection { fd, socket, stream } = connection;
    if buffers.iter().all(|buffer| buffer.is_empty()) {
        return Taken::Nothing; // the kernel's answer would look like the end
    }
    if let Some(errno) = shadow::take_kernels_error(socket) {
        return Taken::Failed(errno);
    }
    start_by_reading(connection);
    let flags = flags & !libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    loop {
        let news = socket.shadow_news.load(Acquire);
        let nothing = || {
            socket.shadow_news_read.store(news, Release);
            Taken::Nothing
        };
        let limit = match limit(connection) {
            Limit::Bytes(limit) => limit,
            Limit::Again => continue,
            Limit::Nothing => return nothing(),
            Limit::Else(taken) => return taken,
        };
        match call::recv_many(fd, &mut cut(buffers, limit), flags) {
            Ok(0) => return ended(socket),
            Err(Errno(libc::EAGAIN)) => return nothing(),
            Err(errno) => return failed(socket, errno),
            Ok(count) if flags & libc::MSG_PEEK != 0 => {
                return peeked(socket, stream, buffers, count).map_or(Taken::Corrupt, Taken::Bytes);
            }
            Ok(count) => {
                stream.incoming.note_taken(count as u64);
                return Taken::Bytes(count);
            }
        }
    }
}

/// How much may be taken.
enum Limit {
    Bytes(u64),
    /// Something has changed meanwhile.
    Again,
    Nothing,
    Else(Taken),
}

fn limit(connection: Connection<'_>) -> Limit {
    let Connection { socket, stream, .. } = connection;
    match left(socket, stream) {
        PrefixLeft::All => queued_payload(connection),
        PrefixLeft::Unproven(left) => match proof::look_locked(connection) {
            Proof::True => Limit::Again,
            Proof::False => Limit::Else(Taken::Native),
            Proof::Unknown if left == 0 => Limit::Nothing,
            Proof::Unknown => Limit::Bytes(left),
        },
        PrefixLeft::Bytes(0) => {
            socket.set_stage(Stage::Settled);
            Limit::Else(Taken::Ring)
        }
        PrefixLeft::Bytes(left) => Limit::Bytes(left),
        PrefixLeft::Native => Limit::Else(Taken::Native),
        PrefixLeft::Corrupt => Limit::Else(Taken::Corrupt),
    }
}

/// What lies on the shadow now, all of it payload; what comes later may not be.
fn queued_payload(connection: Connection<'_>) -> Limit {
    let Connection { fd, socket, stream } = connection;
    let queued = call::bytes_readable(fd);
    match queued {
        Err(Errno(libc::EAGAIN)) => return Limit::Nothing,
        Err(errno) => return Limit::Else(failed(socket, errno)),
        Ok(_) if left(socket, stream) != PrefixLeft::All => return Limit::Again,
        Ok(_) if is_unanswered(socket, stream) => return Limit::Else(Taken::Native),
        Ok(0) => return Limit::Else(ended(socket)),
        Ok(_) => {}
    }
    Limit::Bytes(queued.map_or(0, |count| count as u64))
}

/// Bytes, or an end, beside an offer that its acceptor does not know: nobody will take it.
pub fn is_unanswered(socket: &Socket, stream: &Stream) -> bool {
    socket.stage() == Stage::Offered
        && stream.slot.state() == SlotState::Offered
        && !keeps_offer(socket, stream)
}

fn ended(socket: &Socket) -> Taken {
    if socket.stage().is_kernels() {
        return Taken::Native;
    }
    shadow::note_end(socket);
    Taken::End
}

fn failed(socket: &Socket, errno: Errno) -> Taken {
    let is_callers = matches!(errno, Errno(libc::EFAULT | libc::EINTR));
    if is_callers || socket.stage().is_kernels() {
        return Taken::Failed(errno);
    }
    shadow::note_error(socket, errno);
    Taken::End
}

/// `count` bytes lie at the front of the buffers: how many of them are payload, with what the ring
/// has behind them.
fn peeked(
    socket: &Socket,
    stream: &Stream,
    buffers: &mut [IoSliceMut<'_>],
    count: usize,
) -> Option<usize> {
    let PrefixLeft::Bytes(left) = left(socket, stream) else { return Some(count) };
    let payload = count.min(usize::try_from(left).unwrap_or(usize::MAX));
    if payload == 0 || (payload as u64) < left {
        return Some(payload);
    }
    match stream.incoming.read(&mut behind(buffers, payload), true) {
        Ok(more) => Some(payload + more.bytes),
        Err(MoveError::Fault) => Some(payload),
        Err(MoveError::Corrupt(_)) => None,
    }
}

/// The first `limit` bytes of some buffers.
fn cut<'a>(buffers: &'a mut [IoSliceMut<'_>], limit: u64) -> Vec<IoSliceMut<'a>> {
    let mut left = usize::try_from(limit).unwrap_or(usize::MAX);
    let part = |buffer: &'a mut IoSliceMut<'_>| {
        let length = buffer.len().min(left);
        left -= length;
        IoSliceMut::new(&mut buffer[..length])
    };
    buffers.iter_mut().map(part).collect()
}

/// What follows the first `count` bytes of some buffers.
pub fn behind<'a>(buffers: &'a mut [IoSliceMut<'_>], count: usize) -> Vec<IoSliceMut<'a>> {
    let mut left = count;
    let part = |buffer: &'a mut IoSliceMut<'_>| {
        let length = buffer.len().min(left);
        left -= length;
        IoSliceMut::new(&mut buffer[length..])
    };
    buffers.iter_mut().map(part).collect()
}

/// True when the prefix is read, and the ring holds what follows.
pub fn is_ring_next(socket: &Socket, stream: &Stream) -> bool {
    matches!(left(socket, stream), PrefixLeft::Bytes(0))
}

/// True when bytes of the prefix are missing, of a shadow that has ended: what the ring holds does
/// not follow what was read.
pub fn is_cut(socket: &Socket, stream: &Stream) -> bool {
    matches!(left(socket, stream), PrefixLeft::Bytes(1..))
}

/// True once the whole prefix of the peer is read; from then on the connection is settled.
pub fn settles(connection: Connection<'_>) -> bool {
    let Connection { socket, stream, .. } = connection;
    if matches!(left(socket, stream), PrefixLeft::Unproven(_)) {
        proof::look(connection);
    }
    if !is_ring_next(socket, stream) {
        return false;
    }
    // Nobody is in the middle of taking payload.
    let _alone = socket.receiver.lock();
    socket.set_stage(Stage::Settled);
    true
}

/// True when a connection that closes leaves payload unread on its shadow. Nobody reads it any more,
/// so no lock is needed.
pub fn is_unread(connection: Connection<'_>) -> bool {
    let Connection { fd, socket, stream } = connection;
    if is_ring_next(socket, stream) {
        socket.set_stage(Stage::Settled);
        return false;
    }
    shadow::has_stray_bytes(fd, socket, &stream.incoming)
}

/// Bytes to read on an early stream; `None` where the kernel's number is the right one.
pub fn queued(connection: Connection<'_>) -> Option<u64> {
    let Connection { fd, socket, stream } = connection;
    let on_shadow = call::bytes_queued(fd).unwrap_or(0) as u64;
    match left(socket, stream) {
        PrefixLeft::Bytes(left) => Some(on_shadow.min(left) + stream.incoming.unread().ok()?),
        _ => None,
    }
}

/// What the shadow still holds of the prefix of a peer that is gone.
pub fn remains(connection: Connection<'_>) -> Option<Vec<u8>> {
    let Connection { socket, stream, .. } = connection;
    let mut all = Vec::new();
    while socket.reads_shadow() {
        let mut piece = vec![0; 64 * 1024];
        match take(connection, &mut [IoSliceMut::new(&mut piece)], 0) {
            // Who sends on is not gone.
            Taken::Bytes(_) if all.len() > REMAINS_MAX => return None,
            Taken::Bytes(count) => all.extend_from_slice(&piece[..count]),
            Taken::Corrupt => return None,
            Taken::End if is_cut(socket, stream) => return None,
            _ => break,
        }
    }
    Some(all)
}
