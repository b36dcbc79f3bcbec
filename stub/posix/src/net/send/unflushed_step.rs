//! Sending while an fdatasync(2) of the program has not ended.

use heliostat_base::sys::Errno;
use heliostat_ring::stream::MoveError;

use super::SendStep;
use crate::net::socket::{Connection, Sender, Socket};
use crate::net::transfer::Source;
use crate::net::unflushed::{self, Held};
use crate::net::{end, hold};

/// While a flush is waited for, what is sent is written and not published. `None` goes on as usual.
#[cold]
pub(super) fn step_unflushed(
    fd: i32,
    socket: &Socket,
    half: &mut Sender,
    source: &Source<'_>,
) -> Option<SendStep> {
    let stream = half.stream.clone()?;
    let buffers = match source {
        Source::Buffers(buffers, _) if !hold::concerns(socket, source) && !socket.is_shared() => {
            buffers
        }
        // What cannot be held back waits: see `when_full`.
        _ => return (half.cache.unpublished() > 0).then_some(SendStep::Full(stream)),
    };
    let held = unflushed::hold(Connection::new(fd, socket, &stream), half, buffers);
    Some(match held {
        Ok(Held::Free) => return None,
        Ok(Held::CutOff) => SendStep::Gone,
        Ok(Held::Bytes(0)) if buffers.iter().any(|buffer| !buffer.is_empty()) => {
            SendStep::Full(stream)
        }
        Ok(Held::Bytes(bytes)) => {
            half.count_sent(bytes);
            match stream.outgoing.is_native_wanted() {
                false => SendStep::Done(bytes),
                true => SendStep::Asked(bytes), // D3
            }
        }
        Err(MoveError::Fault) => SendStep::Failed(Errno(libc::EFAULT)),
        Err(MoveError::Corrupt(_)) => {
            end::broken(Connection::new(fd, socket, &stream), SendStep::Gone)
        }
    })
}
