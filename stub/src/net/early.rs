//! The beginning of a stream: what is the kernel's until both ends know that they share rings.
//!
//! A connection is native until it is claimed, and waits for nothing. What the client sends before
//! it sees the claim goes over the shadow and is counted (`prefix`); at the first write after that
//! it steps the slot to Started and writes its ring. The acceptor knows of its claim and writes its
//! ring at once; it reads the shadow, and counts, until it has read the whole prefix.
//!
//! ```text
//!          Offered ------> Claimed ------> Settled        client
//! Undecided -----> Accepted -------------> Settled        acceptor
//! ```
//! Each of these may go native instead. What holds in each of them is said at `Stage`; all that
//! is done here is done only once or seldom for a connection, and may make system calls.

mod ready;

use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::Ordering::{Acquire, Release};

use heliostat_abi::channel::SlotState;
use heliostat_base::call;
use heliostat_base::sys::Errno;
use heliostat_ring::stream::MoveError;

use super::channel::Side;
use super::socket::{Socket, Stream};
use super::{option, shadow};

/// How far a connection has come on its way from the kernel's path to the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Stage {
    /// Both directions go through the rings, or the connection is native: nothing is early.
    Settled = 0,
    /// Client: nobody has claimed the offer, as far as was seen; all is the kernel's.
    Offered = 1,
    /// Client: claimed, but the own ring is not begun; the other one is.
    Claimed = 2,
    /// Acceptor: claimed; what comes in may still be payload on the shadow.
    Accepted = 3,
    /// Acceptor: the offer may still come; all is the kernel's.
    Undecided = 4,
}

impl Stage {
    /// The stage of this number.
    pub fn from_word(word: u32) -> Self {
        match word {
            1 => Self::Offered,
            2 => Self::Claimed,
            3 => Self::Accepted,
            4 => Self::Undecided,
            _ => Self::Settled,
        }
    }
}

pub use ready::*;

/// What a peer that is gone can have left in the kernel, with its buffers at their usual largest.
const REMAINS_MAX: usize = 16 << 20;
/// A writer to whom no bell comes looks for room this often.
pub const BELL_PAUSE_NS: u64 = 2_000_000;

/// Where a client's next byte goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Into the ring.
    Ring,
    /// Over the shadow, counted.
    Shadow,
    /// Over the shadow for good: there is no stream any more.
    Native,
}

/// Where the next byte goes; begins the ring if it can be begun. Under the sender's lock.
pub fn way_out(fd: i32, socket: &Socket, stream: &Stream) -> Way {
    if stream.side == Side::Client && stream.slot.state() == SlotState::Offered {
        return Way::Shadow;
    }
    if begin(fd, socket, stream) {
        Way::Ring
    } else {
        Way::Native
    }
}

/// Begins the client's ring: nothing of it is early any more. False while nobody has claimed the
/// offer, and when the claim was given up. Under the sender's lock.
pub fn begin(fd: i32, socket: &Socket, stream: &Stream) -> bool {
    if !socket.is_early() {
        return true;
    }
    if stream.side == Side::Server {
        // Another process that holds this end may have given the claim up.
        return stream.slot.state().is_stream();
    }
    if !stream.slot.start() {
        return false;
    }
    socket.set_stage(Stage::Settled);
    if stream.outgoing.prefix() > 0 {
        // What Nagle's rule still holds back goes out, since no byte will follow it for long.
        option::prepare_for_bells(fd, socket);
    }
    true
}

/// Sends what the kernel takes at once, and counts it. Under the sender's lock.
pub fn send_shadow(
    fd: i32,
    stream: &Stream,
    buffers: &[IoSlice<'_>],
    flags: i32,
) -> Result<usize, Errno> {
    let count = call::send_many(fd, buffers, flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)?;
    stream.outgoing.extend_prefix(count as u64);
    Ok(count)
}

/// As `send_shadow`, of a file's bytes. Only what the socket took counts as read.
pub fn send_file(
    fd: i32,
    stream: &Stream,
    file: i32,
    offset: Option<u64>,
    limit: usize,
) -> Result<usize, Errno> {
    let at = match offset {
        Some(offset) => offset,
        None => call::lseek(file, 0, libc::SEEK_CUR)? as u64,
    };
    let mut bytes = vec![0; limit];
    let count = call::pread(file, &mut bytes, at)?;
    if count == 0 {
        return Ok(0);
    }
    let sent = send_shadow(fd, stream, &[IoSlice::new(&bytes[..count])], 0)?;
    if offset.is_none() {
        call::lseek(file, (at + sent as u64) as i64, libc::SEEK_SET)?;
    }
    Ok(sent)
}

/// What an acceptor's look at the shadow gave.
pub enum Taken {
    /// Payload.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The client is gone, and all it has sent is read: `end` knows how.
    End,
    /// The caller's error.
    Failed(Errno),
    /// The prefix is read: the ring is next.
    Ring,
    /// The claim was given up: all is the kernel's.
    Native,
    /// The client's words contradict what it sent.
    Corrupt,
}

/// How much of the shadow is payload.
enum Left {
    /// All of it, as far as is known.
    All,
    /// So many bytes, and then bells.
    Bytes(u64),
    Native,
    Corrupt,
}

fn left(stream: &Stream) -> Left {
    match stream.slot.state() {
        SlotState::Claimed => Left::All,
        SlotState::Started => stream.incoming.prefix_left().map_or(Left::Corrupt, Left::Bytes),
        _ => Left::Native,
    }
}

/// Takes payload off the shadow of an accepted connection. Under the receiver's lock.
pub fn take(
    fd: i32,
    socket: &Socket,
    stream: &Stream,
    buffers: &mut [IoSliceMut<'_>],
    flags: i32,
) -> Taken {
    if buffers.iter().all(|buffer| buffer.is_empty()) {
        return Taken::Nothing; // the kernel's answer would look like the end
    }
    let flags = flags & !libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    loop {
        let limit = match left(stream) {
            Left::All => u64::MAX,
            Left::Bytes(0) => {
                socket.set_stage(Stage::Settled);
                return Taken::Ring;
            }
            Left::Bytes(bytes) => bytes,
            Left::Native => return Taken::Native,
            Left::Corrupt => return Taken::Corrupt,
        };
        let news = socket.shadow_news.load(Acquire);
        let answer = call::recv_many(fd, &mut cut(buffers, limit), flags);
        // What came meanwhile may have been the first bells, or the end of a client that has
        // written into its ring.
        let has_begun = limit == u64::MAX && stream.slot.state() != SlotState::Claimed;
        match answer {
            Ok(0) | Err(Errno(libc::EAGAIN)) if has_begun => {}
            Err(Errno(libc::EAGAIN)) => {
                socket.shadow_news_read.store(news, Release);
                return Taken::Nothing;
            }
            Err(errno @ Errno(libc::EFAULT | libc::EINTR)) => return Taken::Failed(errno),
            Err(errno) => {
                shadow::note_error(socket, errno);
                return Taken::End;
            }
            Ok(0) => {
                shadow::note_end(socket);
                return Taken::End;
            }
            Ok(count) if flags & libc::MSG_PEEK != 0 => match peeked(stream, buffers, count) {
                Some(0) => {}
                Some(bytes) => return Taken::Bytes(bytes),
                None => return Taken::Corrupt,
            },
            Ok(count) => {
                let is_final = stream.slot.state() == SlotState::Started;
                match stream.incoming.note_taken(count as u64, is_final) {
                    Some(0) => {}
                    Some(bytes) => return Taken::Bytes(bytes as usize),
                    None => return Taken::Corrupt,
                }
            }
        }
    }
}

/// `count` bytes lie at the front of the buffers: how many of them are payload, with what the ring
/// has behind them.
fn peeked(stream: &Stream, buffers: &mut [IoSliceMut<'_>], count: usize) -> Option<usize> {
    let Left::Bytes(left) = left(stream) else { return Some(count) };
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
pub fn is_ring_next(stream: &Stream) -> bool {
    matches!(left(stream), Left::Bytes(0))
}

/// True when bytes of the prefix are missing, of a shadow that has ended: what the ring holds does
/// not follow what was read.
pub fn is_cut(stream: &Stream) -> bool {
    matches!(left(stream), Left::Bytes(1..))
}

/// True once the whole prefix of an accepted connection is read; from then on it is settled.
pub fn settles(socket: &Socket, stream: &Stream) -> bool {
    if !matches!(left(stream), Left::Bytes(0)) {
        return false;
    }
    // Nobody is in the middle of taking what are bells, as it turns out, for payload.
    let _alone = socket.receiver.lock();
    if !matches!(left(stream), Left::Bytes(0)) {
        return false;
    }
    socket.set_stage(Stage::Settled);
    true
}

/// True when an accepted connection that closes leaves payload unread on its shadow. Nobody reads
/// it any more, so no lock is needed.
pub fn is_unread(fd: i32, socket: &Socket, stream: &Stream) -> bool {
    match left(stream) {
        Left::Bytes(0) => {
            socket.set_stage(Stage::Settled);
            false
        }
        _ => shadow::has_stray_bytes(fd, socket, &stream.incoming),
    }
}

/// Bytes to read on an early stream; `None` where the kernel's number is the right one.
pub fn queued(fd: i32, stream: &Stream) -> Option<u64> {
    let in_ring = stream.incoming.unread().ok()?;
    match (stream.side, stream.slot.state()) {
        (Side::Client, SlotState::Claimed | SlotState::Started) => Some(in_ring),
        (Side::Server, SlotState::Started) => {
            let on_shadow = call::bytes_queued(fd).unwrap_or(0) as u64;
            Some(on_shadow.min(stream.incoming.prefix_left()?) + in_ring)
        }
        _ => None,
    }
}

/// What the shadow still holds of the prefix of an accepted connection, whose client is gone.
pub fn remains(fd: i32, socket: &Socket, stream: &Stream) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    while socket.reads_shadow() {
        let mut piece = vec![0; 64 * 1024];
        match take(fd, socket, stream, &mut [IoSliceMut::new(&mut piece)], 0) {
            // Who sends on is not gone.
            Taken::Bytes(_) if all.len() > REMAINS_MAX => return None,
            Taken::Bytes(count) => all.extend_from_slice(&piece[..count]),
            Taken::Corrupt => return None,
            Taken::End if is_cut(stream) => return None,
            _ => break,
        }
    }
    Some(all)
}
