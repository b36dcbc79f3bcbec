//! Receiving on a direct stream: recv, read, readv, recvmsg and their flags.

mod early_steps;
mod pause;

use std::io::IoSliceMut;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::Arc;

use heliostat_abi::code::Native;
use heliostat_abi::session::node::State;
use heliostat_abi::stream::channel::direction::{RESET, SWITCHED, TAKEN_BACK};
use heliostat_base::sys::Errno;
use heliostat_ring::stream::{Corrupt, MoveError, ReadDone};

use early_steps::{read_on, step_early, step_undecided};
use pause::{pause, sleep_undecided, Pause};

use super::early::{self, Taken};
use super::side_lock::{self, Half};
use super::socket::{self, Connection, Socket, Stage, Stream};
use super::transfer::PIECE_BYTES;
use super::wait::{self, Blocked, Wake};
use super::{accept, carried, connecting, delegated, demote, end, rest, shadow, switch};
use crate::report::Line;
use crate::table::{self, DescriptorKind};
use crate::thread::{Began, Critical};
use crate::{fail, Answer};

/// Flags that change nothing for a stream socket without control data.
const HARMLESS: i32 = libc::MSG_CMSG_CLOEXEC | libc::MSG_NOSIGNAL | libc::MSG_WAITFORONE;
/// Looks of one call that does not wait; an honest peer needs a second one, seldom a third.
const TURNS_MAX: u32 = 16;
const KNOWN: i32 =
    HARMLESS | libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_WAITALL | libc::MSG_TRUNC;

/// What one look at the lane gave.
enum ReceiveStep {
    Done(usize),
    Empty(Stream),
    /// Bytes came while the lane was looked at.
    Again,
    /// As `Empty`, of a connection whose offer may still come: this thread sleeps, and is counted.
    Undecided,
    End,
    /// With the error that `end` keeps, to be told unless bytes are.
    Gone,
    Failed(Errno),
    Native,
    Leave(Native),
    /// All is the kernel's, or the kernel has told an end that decides what all is.
    Follow,
}

/// What a receiving call came to.
pub enum Received {
    /// The answer; `None` is the kernel's to give.
    Answer(Answer),
    /// Nothing to read: the caller makes recv(2) of one byte with MSG_PEEK on the descriptor, with
    /// no frame of ours on the stack, gives the answer to `woken`, and then calls anew.
    Sleep,
}

/// recv(2) family on connection `index`; `buffers` as given by the program, whose call began now, or as
/// `Began::of_sleep` says for one that has slept.
#[inline]
pub fn receive(
    fd: i32,
    index: u32,
    buffers: &mut [IoSliceMut<'_>],
    flags: i32,
    mut began: Option<Began>,
) -> Received {
    let socket = socket::at(index);
    if socket.is_native() && !connecting::is_carried_now(fd, index, true) {
        delegated::follow_child();
        return Received::Answer(None);
    }
    if flags & !KNOWN != 0 {
        return Received::Answer(unusual(fd, index, flags));
    }
    if socket.stage() == Stage::Undecided {
        // To wait for all bytes is to rely on what the connection is.
        began = began.or_else(|| Some(Began::now()));
        let at_last = flags & libc::MSG_WAITALL != 0;
        accept::decide(fd, index, at_last.then_some(Native::Crossed));
    }
    // The commonest case first: bytes are there, one look takes them.
    match step(fd, socket, buffers, flags, &mut began) {
        ReceiveStep::Done(bytes) if flags & libc::MSG_WAITALL == 0 => {
            Received::Answer(Some(Ok(bytes)))
        }
        first => {
            let began = began.unwrap_or_else(Began::now);
            receive_slowly(fd, index, buffers, flags, began, first)
        }
    }
}

/// Tells a sleep on connection `index` from one on another connection at the same place.
pub fn sleeper(index: u32) -> u32 {
    socket::at(index).generation()
}

/// After the sleep that `receive` asked for: `Some` is the call's answer, `None` means call anew, with
/// `Began::of_sleep()`.
/// `sleeper` as it was before the sleep: another thread may have closed the descriptor meanwhile,
/// and its number, or the place, may be another connection's.
pub fn woken(fd: i32, index: u32, sleeper: u32, answer: Result<usize, Errno>) -> Answer {
    let socket = socket::at(index);
    let is_same = socket.generation() == sleeper;
    if !is_same || table::kind(fd) != DescriptorKind::Socket(index) {
        if is_same {
            wait::give_up_sleep(socket);
        }
        return closed_meanwhile(answer);
    }
    let critical = Critical::enter();
    let stream = socket.receiver.lock().stream.clone();
    drop(critical);
    let Some(stream) = stream else {
        wait::forget_sleep(socket);
        // The kernel's own answer, where there is no stream, yet or any more. A loop that ends beside an
        // unread bell resets the shadow, which was another socket than the connection's.
        let is_shadows = socket.was_carried.load(Relaxed) && answer == Err(Errno(libc::ECONNRESET));
        return answer.err().filter(|_| !is_shadows).map(Err);
    };
    match wait::end_sleep(Connection::new(fd, socket, &stream), answer) {
        Wake::Look => None,
        // What came meanwhile counts more than the interruption.
        _ if stream.incoming.unread().is_ok_and(|unread| unread > 0) => None,
        Wake::Interrupted => fail(libc::EINTR),
        Wake::TimedOut => fail(libc::EAGAIN),
    }
}

/// The kernel's own call would have gone on with the connection that it began with: its end and its
/// errors are told. Of bytes no more than one was looked at, and the rest is out of reach.
#[cold]
fn closed_meanwhile(answer: Result<usize, Errno>) -> Answer {
    match answer {
        Ok(1..) => fail(libc::EBADF),
        ended => Some(ended),
    }
}

/// Out-of-band data and the error queue are the kernel's: the first ends the direct path.
#[cold]
fn unusual(fd: i32, index: u32, flags: i32) -> Answer {
    if flags & libc::MSG_ERRQUEUE == 0 || carried::is_carried(socket::at(index)) {
        demote::leave(fd, index, Native::Call);
    }
    None
}

fn receive_slowly(
    fd: i32,
    index: u32,
    mut buffers: &mut [IoSliceMut<'_>],
    flags: i32,
    began: Began,
    first: ReceiveStep,
) -> Received {
    let socket = socket::at(index);
    let mut next = Some(first);
    let wanted: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    let waits_for_all = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0;
    let (mut total, mut turns) = (0, 0);
    let blocked = Blocked::reading(fd, began);
    let answer = loop {
        turns += 1;
        let step =
            next.take().unwrap_or_else(|| step(fd, socket, buffers, flags, &mut Some(began)));
        let stream = match step {
            ReceiveStep::Done(bytes) => {
                total += bytes;
                if !waits_for_all || total == wanted {
                    break Some(Ok(total));
                }
                IoSliceMut::advance_slices(&mut buffers, bytes);
                continue;
            }
            ReceiveStep::End => break Some(Ok(total)),
            ReceiveStep::Gone if total > 0 => break Some(Ok(total)),
            ReceiveStep::Gone => break Some(end::take_error(socket).map_or(Ok(0), Err)),
            ReceiveStep::Native if total > 0 => {
                break Some(Ok(total + rest::receive(fd, buffers, flags)))
            }
            ReceiveStep::Failed(_) if total > 0 => break Some(Ok(total)),
            ReceiveStep::Failed(errno) => break Some(Err(errno)),
            ReceiveStep::Native => break None,
            ReceiveStep::Leave(reason) => {
                demote::leave(fd, index, reason);
                continue;
            }
            ReceiveStep::Empty(_) if wanted == 0 => break Some(Ok(total)),
            // A peer that changes its words between two looks could go on doing so.
            ReceiveStep::Again if turns > TURNS_MAX && is_impatient(socket, flags) => {
                break if total > 0 { Some(Ok(total)) } else { fail(libc::EAGAIN) };
            }
            ReceiveStep::Again => continue,
            ReceiveStep::Undecided => match sleep_undecided(socket, &blocked) {
                true => return Received::Sleep,
                false if total > 0 => break Some(Ok(total)),
                false => break fail(libc::EINTR),
            },
            ReceiveStep::Follow => {
                demote::follow(fd, index);
                continue;
            }
            ReceiveStep::Empty(stream) => stream,
        };
        match pause(index, &stream, flags, turns, &blocked) {
            Pause::Again => {}
            Pause::Sleep => return Received::Sleep,
            Pause::Stop(_) if total > 0 => break Some(Ok(total)),
            Pause::Stop(errno) => break fail(errno),
        }
    };
    Received::Answer(answer)
}

fn is_impatient(socket: &Socket, flags: i32) -> bool {
    socket.nonblocking.load(Relaxed) || flags & libc::MSG_DONTWAIT != 0
}

/// Looks once. A call that has not begun yet begins here: what this section puts off has come within it.
#[inline]
fn step(
    fd: i32,
    socket: &Socket,
    buffers: &mut [IoSliceMut<'_>],
    flags: i32,
    began: &mut Option<Began>,
) -> ReceiveStep {
    let critical = Critical::enter();
    began.get_or_insert_with(|| critical.began());
    let mut half = socket.receiver.lock();
    let half = &mut *half;
    let Some(stream) = &half.stream else {
        return step_undecided(fd, socket, half, buffers, flags);
    };
    let connection = Connection::new(fd, socket, stream);
    let Some(_shared) = side_lock::enter(socket, stream, Half::Reading) else {
        return end::broken(connection, ReceiveStep::Gone);
    };
    // Once this end has switched, what is left to do is reading until the peer switches too.
    let has_switched = || stream.outgoing.flags() & SWITCHED != 0;
    if stream.slot.channel.state() == State::Revoked && !has_switched() {
        return ReceiveStep::Leave(Native::Revoked);
    }
    if socket.is_frozen() || socket.is_frozen_by_other(stream) {
        return match switch::can_follow(connection) {
            false => ReceiveStep::Empty(stream.clone()),
            true => ReceiveStep::Leave(Native::PeerAsked),
        };
    }
    let peeks = flags & libc::MSG_PEEK != 0;
    if socket.is_early() {
        let mut taken = early::take(connection, buffers, flags);
        if let (Taken::Bytes(bytes), false) = (&mut taken, peeks) {
            *bytes = read_on(connection, buffers, *bytes, flags);
            count(&mut half.received, &half.line, *bytes);
        }
        if let Some(step) = step_early(connection, taken) {
            return step;
        }
    }
    let done = if flags & libc::MSG_TRUNC != 0 {
        let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        count_or_discard(stream, bytes, peeks).map_err(MoveError::from)
    } else {
        match buffers {
            [buffer] if buffer.len() > PIECE_BYTES && !peeks => read_pieces(stream, buffer),
            buffers => stream.incoming.read(buffers, peeks),
        }
    };
    let done = match done {
        Ok(done) => done,
        Err(MoveError::Fault) => return ReceiveStep::Failed(Errno(libc::EFAULT)),
        Err(MoveError::Corrupt(_)) => {
            return end::broken(connection, ReceiveStep::Gone);
        }
    };
    if done.bytes == 0 {
        return when_empty(connection);
    }
    if done.made_room && stream.incoming.take_sleeping_writer() {
        shadow::ring_back(fd, socket);
    }
    if !peeks {
        count(&mut half.received, &half.line, done.bytes);
    }
    ReceiveStep::Done(done.bytes)
}

/// What MSG_TRUNC does with up to `limit` unread bytes. They are looked for once: what comes between
/// two looks would be thrown away by who only peeks.
#[cold]
fn count_or_discard(stream: &Stream, limit: usize, peeks: bool) -> Result<ReadDone, Corrupt> {
    if !peeks {
        return stream.incoming.discard(limit);
    }
    let unread = stream.incoming.unread()?;
    Ok(ReadDone { bytes: limit.min(unread as usize), made_room: false })
}

/// Counts payload, for the report.
#[inline]
fn count(received: &mut u64, line: &Option<Arc<Line>>, bytes: usize) {
    *received += bytes as u64;
    if let Some(line) = line {
        line.received(*received);
    }
}

/// Reads a large buffer in pieces, each given back to the writer at once, and goes on for as long
/// as the writer keeps up.
fn read_pieces(stream: &Stream, buffer: &mut [u8]) -> Result<ReadDone, MoveError> {
    let mut total = ReadDone { bytes: 0, made_room: false };
    for piece in buffer.chunks_mut(PIECE_BYTES) {
        let wanted = piece.len();
        let done = match stream.incoming.read(&mut [IoSliceMut::new(piece)], false) {
            // What was in front of the missing page is read.
            Err(MoveError::Fault) if total.bytes > 0 => break,
            answer => answer?,
        };
        total.bytes += done.bytes;
        total.made_room |= done.made_room;
        if done.bytes < wanted {
            break;
        }
    }
    Ok(total)
}

/// An empty lane: is it the end, an error, the kernel's turn, or only early?
fn when_empty(connection: Connection<'_>) -> ReceiveStep {
    let Connection { socket, stream, .. } = connection;
    let ended = socket.shadow_ended.load(Acquire);
    let flags = stream.incoming.flags();
    if ended {
        stream.incoming.release_held();
    }
    // Flags and the shadow's end come after the last byte: look once more before believing them.
    let taken_back = flags & TAKEN_BACK != 0 && flags & SWITCHED != 0;
    if !taken_back && stream.incoming.unread().is_ok_and(|unread| unread > 0) {
        return ReceiveStep::Again;
    }
    if switch::can_follow(connection) {
        return ReceiveStep::Leave(Native::PeerAsked);
    }
    if ended && carried::is_lost(socket, stream) {
        return ReceiveStep::Leave(Native::LoopEnded);
    }
    if ended || flags & RESET != 0 {
        end::settle(socket, stream);
    }
    if end::is_in_order(socket, flags) {
        return ReceiveStep::End;
    }
    if ended || socket.broken.load(Acquire) {
        return ReceiveStep::Gone;
    }
    if socket.read_shut.load(Relaxed) {
        return ReceiveStep::End;
    }
    ReceiveStep::Empty(stream.clone())
}
