//! Sending before the own ring is begun, and the write that begins it.

use std::sync::atomic::Ordering::Relaxed;

use heliostat_abi::code::Native;
use heliostat_abi::session::node::State;
use heliostat_base::sys::Errno;

use super::{step_in_ring, SendStep, FILE_PIECE};
use crate::net::early::{self, SendPath};
use crate::net::side_lock::{self, Half};
use crate::net::socket::{Connection, Sender, Socket};
use crate::net::transfer::Source;

/// What is sent before the own ring is begun; `None` when it goes into the ring.
#[cold]
pub(super) fn step_early(
    fd: i32,
    socket: &Socket,
    half: &mut Sender,
    source: &Source<'_>,
) -> Option<SendStep> {
    let stream = half.stream.clone()?;
    if stream.slot.channel.state() == State::Revoked {
        return Some(SendStep::Leave(Native::Revoked));
    }
    // Beside another process of this end what is counted is not counted twice, nor too late.
    let Some(_shared) = side_lock::enter(socket, &stream, Half::Writing) else {
        return Some(SendStep::Leave(Native::Corrupt));
    };
    match early::send_path(Connection::new(fd, socket, &stream)) {
        SendPath::Ring if socket.is_secret_due.load(Relaxed) => {
            drop(_shared);
            return Some(step_first(fd, socket, half, source));
        }
        SendPath::Ring => return None,
        SendPath::Native => return Some(SendStep::Leave(Native::PeerAsked)),
        SendPath::Shadow => {}
    }
    let (wanted, answer) = match source {
        Source::Buffers(buffers, flags) => {
            let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
            (wanted, early::send_shadow(fd, &stream, buffers, *flags))
        }
        Source::File { fd: file, offset, limit } => {
            let limit = (*limit).min(FILE_PIECE) as usize;
            (limit, early::send_file(fd, &stream, *file, *offset, limit))
        }
    };
    let full = answer == Err(Errno(libc::EAGAIN));
    if full || answer.is_ok_and(|bytes| bytes < wanted) {
        socket.starved.store(true, Relaxed);
    }
    Some(match answer {
        Ok(bytes) => {
            half.count_sent(bytes);
            SendStep::Done(bytes)
        }
        Err(_) if full => SendStep::Full(stream.clone()),
        Err(errno) => SendStep::Failed(errno),
    })
}

/// A client's first write into its ring. The secret goes in front of the bell, if one is rung.
#[cold]
fn step_first(fd: i32, socket: &Socket, half: &mut Sender, source: &Source<'_>) -> SendStep {
    let before = half.stream.as_ref().map_or(0, |stream| stream.outgoing.tail());
    let step = step_in_ring(fd, socket, half, source);
    if let Some(stream) = &half.stream {
        early::tell(
            Connection::new(fd, socket, stream),
            stream.outgoing.tail().wrapping_sub(before),
        );
    }
    step
}
