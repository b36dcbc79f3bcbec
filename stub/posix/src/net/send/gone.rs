//! What a write finds whose peer has gone.

use heliostat_base::sync::Ordering::Acquire;

use heliostat_abi::code::Native;

use super::SendStep;
use crate::net::socket::{Socket, Stream};
use crate::net::transfer::Source;
use crate::net::{carried, end, shadow};

/// Writes between two looks at a shadow that nobody doubts.
const LOOK_EVERY: u32 = 1024;

/// Has the peer gone without a word? The control plane says when its process has ended (a child
/// of it may hold the stream still); should it be away itself, every so-manieth write looks.
#[inline]
pub fn is_doubtful(fd: i32, socket: &Socket, stream: &Stream) -> bool {
    shadow::doubt(fd, socket, stream)
        || socket.count_write() % LOOK_EVERY == 0 && shadow::probe(fd, socket)
}

/// Like the kernel: the first write after the peer left in order is swallowed, and answered by a
/// reset, so that the next is EPIPE.
#[cold]
pub fn to_a_gone_peer(socket: &Socket, stream: &Stream, source: &Source<'_>) -> SendStep {
    if carried::is_lost(socket, stream) {
        return SendStep::Leave(Native::LoopEnded);
    }
    end::settle(socket, stream);
    if socket.broken.load(Acquire) {
        return SendStep::Gone;
    }
    end::break_off(socket, libc::EPIPE);
    match source {
        Source::Buffers(buffers, _) => {
            SendStep::Done(buffers.iter().map(|buffer| buffer.len()).sum())
        }
        Source::File { .. } => SendStep::Gone,
    }
}
