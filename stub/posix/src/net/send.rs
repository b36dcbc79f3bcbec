//! Sending on a direct stream: send, write, writev, sendmsg and sendfile.

mod early_steps;
mod gone;
mod unflushed_step;

use std::io::IoSlice;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use heliostat_abi::code::Native;
use heliostat_abi::session::node::State;
use heliostat_abi::stream::channel::direction::{RESET, SWITCHED};
use heliostat_base::sys::Errno;
use heliostat_ring::stream::{MoveError, WriteCache};

use early_steps::step_early;
use gone::{is_doubtful, to_a_gone_peer};
use unflushed_step::step_unflushed;

use super::early;
use super::socket::{self, Connection, Sender, Socket, Stage, Stream};
use super::transfer::{Source, PIECE_BYTES};
use super::wait::{self, Blocked, Wake};
use super::{
    accept, commit, connecting, delegated, demote, end, hold, listen, rest, shadow, side_lock,
};
use crate::flush;
use crate::thread::{self, Began, Critical};
use crate::Answer;

const KNOWN: i32 =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_EOR | libc::MSG_CONFIRM;
/// One round of sendfile puts at most this much into the ring before the reader is told.
const FILE_PIECE: u64 = 64 * 1024;

enum SendStep {
    Done(usize),
    /// As `Done`, and the reader asked for the kernel's path meanwhile: it may not look again.
    Asked(usize),
    Full(Stream),
    /// Closed, with the error that `end` keeps or EPIPE, to be told unless bytes were sent.
    Gone,
    Failed(Errno),
    Native,
    Leave(Native),
}

/// send(2) family on connection `index`.
#[inline]
pub fn send(fd: i32, index: u32, buffers: &[IoSlice<'_>], flags: i32) -> Answer {
    match send_or_leave(fd, index, buffers, flags) {
        None if flush::is_watched() => commit::before_kernel_sends().map(Err),
        answer => answer,
    }
}

#[inline]
fn send_or_leave(fd: i32, index: u32, buffers: &[IoSlice<'_>], flags: i32) -> Answer {
    let socket = socket::at(index);
    if socket.is_native() && !connecting::is_carried_now(fd, index, false) {
        delegated::follow_child();
        return None;
    }
    if flags & !KNOWN != 0 {
        demote::leave(fd, index, Native::Call);
        return None;
    }
    let mut began = None;
    if socket.is_early() {
        began = Some(Began::now());
        accept::learn_more(fd, index);
        if socket.stage() == Stage::Undecided {
            return accept::send_undecided(fd, index, buffers, flags);
        }
    }
    let wanted: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    // The commonest case first: there is room for all of it.
    match step(fd, socket, &Source::Buffers(buffers, flags), &mut began) {
        SendStep::Done(bytes) if bytes == wanted => Some(Ok(bytes)),
        SendStep::Full(_) if wanted == 0 => Some(Ok(0)),
        first => {
            let began = began.unwrap_or_else(Began::now);
            send_slowly(fd, index, buffers, flags, began, first)
        }
    }
}

fn send_slowly(
    fd: i32,
    index: u32,
    buffers: &[IoSlice<'_>],
    flags: i32,
    began: Began,
    first: SendStep,
) -> Answer {
    let mut rest: Vec<IoSlice<'_>> = buffers.iter().map(|part| IoSlice::new(part)).collect();
    let mut rest = rest.as_mut_slice();
    let (mut total, mut next) = (0, Some(first));
    let blocked = Blocked::writing(fd, began);
    loop {
        let step = next.take().unwrap_or_else(|| {
            let source = Source::Buffers(rest, flags);
            step(fd, socket::at(index), &source, &mut Some(began))
        });
        let step = follow_wish(fd, index, step);
        if let SendStep::Done(bytes) = step {
            total += bytes;
            IoSlice::advance_slices(&mut rest, bytes);
            if rest.is_empty() {
                return Some(Ok(total));
            }
            continue;
        }
        if let (SendStep::Native, true) = (&step, total > 0) {
            if flush::is_watched() && commit::before_kernel_sends().is_some() {
                return Some(Ok(total)); // the next call is told
            }
            let is_nonblocking = socket::at(index).nonblocking.load(Relaxed);
            return Some(Ok(total + rest::send(fd, rest, flags, is_nonblocking)));
        }
        match after(index, step, total, flags, &blocked) {
            After::Again => {}
            After::Return(Some(Ok(0))) if total > 0 => return Some(Ok(total)),
            After::Return(answer) => return answer,
        }
    }
}

/// sendfile(2) from an ordinary file into the ring without a copy between. `offset` is advanced
/// by the caller; the answer is the bytes sent.
pub fn send_file(fd: i32, index: u32, file: i32, offset: Option<u64>, limit: u64) -> Answer {
    let socket = socket::at(index);
    if socket.is_native() {
        return None;
    }
    if socket.is_early() {
        accept::learn_more(fd, index);
        accept::decide(fd, index, Some(Native::Crossed));
    }
    let mut total = 0u64;
    let began = Began::now();
    let blocked = Blocked::writing(fd, began);
    loop {
        let offset = offset.map(|offset| offset + total);
        let piece = (limit - total).min(FILE_PIECE);
        let source = Source::File { fd: file, offset, limit: piece };
        let step = step(fd, socket, &source, &mut Some(began));
        match follow_wish(fd, index, step) {
            SendStep::Done(0) => return Some(Ok(total as usize)),
            SendStep::Done(bytes) => {
                total += bytes as u64;
                if total == limit {
                    return Some(Ok(total as usize));
                }
            }
            other => match after(index, other, total as usize, 0, &blocked) {
                After::Again => {}
                After::Return(answer) => return answer,
            },
        }
    }
}

/// Bytes that were written beside the reader's wish are taken back at once, since it may have gone.
fn follow_wish(fd: i32, index: u32, step: SendStep) -> SendStep {
    let SendStep::Asked(bytes) = step else { return step };
    demote::leave(fd, index, Native::PeerAsked);
    SendStep::Done(bytes)
}

enum After {
    Again,
    Return(Answer),
}

/// What to do when a step did not send: leave, wait, or answer.
fn after(index: u32, step: SendStep, total: usize, flags: i32, blocked: &Blocked) -> After {
    let fd = blocked.fd;
    let socket = socket::at(index);
    match step {
        SendStep::Done(_) | SendStep::Asked(_) => After::Again,
        SendStep::Native if total > 0 => After::Return(Some(Ok(total))),
        SendStep::Native => After::Return(None),
        SendStep::Leave(reason) => {
            demote::leave(fd, index, reason);
            After::Again
        }
        SendStep::Failed(_) | SendStep::Gone if total > 0 => After::Return(Some(Ok(total))),
        SendStep::Failed(errno) => After::Return(Some(Err(told(errno, flags)))),
        SendStep::Gone => {
            let errno = end::take_error(socket).unwrap_or(Errno(libc::EPIPE));
            After::Return(Some(Err(told(errno, flags))))
        }
        SendStep::Full(stream) if stream.incoming.is_reader_leaving() => {
            // No bell comes any more: this end is about to switch.
            demote::leave(fd, index, Native::PeerAsked);
            After::Again
        }
        SendStep::Full(stream) => when_full(socket, &stream, total, flags, blocked),
    }
}

/// The error that a call ends with: a broken pipe comes with its signal.
fn told(errno: Errno, flags: i32) -> Errno {
    if errno == Errno(libc::EPIPE) && flags & libc::MSG_NOSIGNAL == 0 {
        thread::raise_sigpipe();
    }
    errno
}

fn when_full(
    socket: &Socket,
    stream: &Stream,
    total: usize,
    flags: i32,
    blocked: &Blocked,
) -> After {
    let fd = blocked.fd;
    listen::renew_if_due();
    if flush::is_busy() {
        commit::settle(); // the reader has something to read then, and makes room
        return After::Again;
    }
    let stop = |errno| match total {
        0 => After::Return(Some(Err(Errno(errno)))),
        _ => After::Return(Some(Ok(total))),
    };
    if socket.nonblocking.load(Relaxed) || flags & libc::MSG_DONTWAIT != 0 {
        return match shadow::probe_if_stale(fd, socket) {
            true => After::Again,
            false => stop(libc::EAGAIN),
        };
    }
    match wait::wait(socket, stream, blocked) {
        // The kernel keeps the error for the next call, and tells what was sent.
        Wake::Look if total > 0 && early::sends_on_shadow(socket) && early::has_failed(fd) => {
            After::Return(Some(Ok(total)))
        }
        Wake::Look => After::Again,
        Wake::Interrupted => stop(libc::EINTR),
        Wake::TimedOut => stop(libc::EAGAIN),
    }
}

/// Looks once. A call that has not begun yet begins here: what this section puts off has come within it.
#[inline]
fn step(fd: i32, socket: &Socket, source: &Source<'_>, began: &mut Option<Began>) -> SendStep {
    let critical = Critical::enter();
    began.get_or_insert_with(|| critical.began());
    let mut half = socket.sender.lock();
    let half = &mut *half;
    if socket.is_early() {
        if let Some(step) = step_early(fd, socket, half, source) {
            return step;
        }
    }
    step_in_ring(fd, socket, half, source)
}

#[inline]
fn step_in_ring(fd: i32, socket: &Socket, half: &mut Sender, source: &Source<'_>) -> SendStep {
    let Some(stream) = &half.stream else { return SendStep::Native };
    if let Some(refused) = refusal(fd, socket, stream, source) {
        return refused;
    }
    let Some(_shared) = side_lock::enter(socket, stream, side_lock::Half::Writing) else {
        return end::broken(Connection::new(fd, socket, stream), SendStep::Gone);
    };
    if flush::is_watched() || half.cache.unpublished() > 0 {
        if let Some(step) = step_unflushed(fd, socket, half, source) {
            return step;
        }
    }
    let Some(stream) = &half.stream else { return SendStep::Native };
    let lane = &stream.outgoing;
    let is_held = hold::concerns(socket, source);
    if is_held {
        hold::push_if_full(fd, socket, lane);
    }
    let done = match source {
        // Asked before the file is read: after it, room that has just been made would turn "full"
        // into "end of file".
        Source::File { .. } if lane.room() == Ok(0) => {
            socket.starved.store(true, Relaxed);
            return SendStep::Full(stream.clone());
        }
        source if is_held => {
            hold::send(fd, socket, lane, (&mut half.cache, &mut half.segment), source)
        }
        Source::Buffers(buffers, _) => write(fd, socket, stream, buffers, &mut half.cache).map(Ok),
        Source::File { fd: file, offset, limit } => {
            lane.fill_from(*file, *offset, *limit, &mut half.cache).map_err(Into::into)
        }
    };
    let bytes = match done {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(errno)) => return SendStep::Failed(errno),
        Err(MoveError::Fault) => return SendStep::Failed(Errno(libc::EFAULT)),
        Err(MoveError::Corrupt(_)) => {
            return end::broken(Connection::new(fd, socket, stream), SendStep::Gone)
        }
    };
    if bytes == 0 {
        return match source {
            Source::Buffers(buffers, _) if buffers.iter().any(|buffer| !buffer.is_empty()) => {
                socket.starved.store(true, Relaxed);
                SendStep::Full(stream.clone())
            }
            _ => SendStep::Done(0),
        };
    }
    if !is_held && lane.take_sleeping_reader() {
        shadow::ring_bell(fd, socket, lane, bytes);
    }
    socket.head_seen.store(half.cache.head(), Relaxed);
    half.sent += bytes as u64;
    if let Some(line) = &half.line {
        line.sent(half.sent);
    }
    match lane.is_native_wanted() {
        false => SendStep::Done(bytes),
        true => SendStep::Asked(bytes), // D3
    }
}

/// Writes what there is room for. A large buffer goes in pieces, each published and announced at
/// once, so that the reader copies one while the next is being written.
#[inline]
fn write(
    fd: i32,
    socket: &Socket,
    stream: &Stream,
    buffers: &[IoSlice<'_>],
    cache: &mut WriteCache,
) -> Result<usize, MoveError> {
    let [buffer] = buffers else { return stream.outgoing.write(buffers, cache) };
    if buffer.len() <= PIECE_BYTES {
        return stream.outgoing.write(buffers, cache);
    }
    let mut total = 0;
    for piece in buffer.chunks(PIECE_BYTES) {
        let bytes = match stream.outgoing.write(&[IoSlice::new(piece)], cache) {
            // What was in front of the missing page is sent.
            Err(MoveError::Fault) if total > 0 => break,
            answer => answer?,
        };
        if bytes > 0 && stream.outgoing.take_sleeping_reader() {
            shadow::ring_bell(fd, socket, &stream.outgoing, bytes);
        }
        total += bytes;
        if bytes < piece.len() {
            break;
        }
    }
    Ok(total)
}

/// Reasons not to write: the own end is shut, the peer is gone, the grant has ended.
#[inline]
fn refusal(fd: i32, socket: &Socket, stream: &Stream, source: &Source<'_>) -> Option<SendStep> {
    if stream.slot.channel.state() == State::Revoked {
        return Some(SendStep::Leave(Native::Revoked));
    }
    // Asked by the reader, done already by another holder of this end, or by the peer, whose
    // reading can ring no bell any more.
    let switched = stream.outgoing.flags() | stream.incoming.flags();
    if stream.outgoing.is_native_wanted() || switched & SWITCHED != 0 {
        return Some(SendStep::Leave(Native::PeerAsked));
    }
    if socket.write_shut.load(Relaxed) {
        return Some(SendStep::Gone);
    }
    let gone = stream.slot.peer_left(stream.side)
        || stream.incoming.flags() & RESET != 0
        || socket.shadow_ended.load(Acquire)
        || is_doubtful(fd, socket, stream);
    gone.then(|| to_a_gone_peer(socket, stream, source))
}
