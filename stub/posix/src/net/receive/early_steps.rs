//! Receiving before the ring is all there is: from the shadow of an early stream, or before it is
//! known whose the connection is.

use std::io::IoSliceMut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use heliostat_abi::code::Native;
use heliostat_abi::stream::channel::direction::SWITCHED;
use heliostat_base::call;
use heliostat_base::sys::Errno;

use super::{count, is_impatient, ReceiveStep};
use crate::net::early::{self, Taken};
use crate::net::socket::{Connection, Receiver, Socket, Stage, Stream};
use crate::net::{end, shadow};

/// What was taken off the shadow, and behind the prefix's last byte what the ring holds.
#[cold]
pub(super) fn read_on(
    connection: Connection<'_>,
    buffers: &mut [IoSliceMut<'_>],
    bytes: usize,
    flags: i32,
) -> usize {
    let Connection { fd, socket, stream } = connection;
    if flags & libc::MSG_TRUNC != 0 || !early::is_ring_next(socket, stream) {
        return bytes;
    }
    socket.set_stage(Stage::Settled);
    let Ok(done) = stream.incoming.read(&mut early::behind(buffers, bytes), false) else {
        return bytes;
    };
    if done.made_room && stream.incoming.take_sleeping_writer() {
        shadow::ring_back(fd, socket);
    }
    bytes + done.bytes
}

/// What the shadow gave; `None` when the ring is next.
#[cold]
pub(super) fn step_early(connection: Connection<'_>, taken: Taken) -> Option<ReceiveStep> {
    let Connection { socket, stream, .. } = connection;
    Some(match taken {
        Taken::Ring => return None,
        Taken::Bytes(bytes) => ReceiveStep::Done(bytes),
        Taken::Nothing if socket.read_shut.load(Relaxed) => ReceiveStep::End,
        Taken::Nothing => ReceiveStep::Empty(stream.clone()),
        Taken::End => when_ended(socket, stream),
        Taken::Failed(errno) => ReceiveStep::Failed(errno),
        Taken::Native => ReceiveStep::Follow,
        Taken::Corrupt => end::broken(connection, ReceiveStep::Gone),
    })
}

/// The shadow has ended before the ring's turn came.
#[cold]
fn when_ended(socket: &Socket, stream: &Stream) -> ReceiveStep {
    if early::is_cut(socket, stream) {
        if !socket.broken.load(Acquire) {
            end::break_off(socket, libc::ECONNRESET);
        }
        return ReceiveStep::Gone;
    }
    let flags = stream.incoming.flags();
    if flags & SWITCHED != 0 {
        return ReceiveStep::Leave(Native::PeerAsked);
    }
    end::settle(socket, stream);
    if end::is_in_order(socket, flags) || socket.read_shut.load(Relaxed) {
        return ReceiveStep::End;
    }
    ReceiveStep::Gone
}

/// Takes what there is on a connection whose offer may still come, and counts it.
#[cold]
pub(super) fn step_undecided(
    fd: i32,
    socket: &Socket,
    half: &mut Receiver,
    buffers: &mut [IoSliceMut<'_>],
    flags: i32,
) -> ReceiveStep {
    let Some(undecided) = &mut half.undecided else { return ReceiveStep::Native };
    if buffers.iter().all(|buffer| buffer.is_empty()) {
        return ReceiveStep::Done(0);
    }
    match call::recv_many(fd, buffers, flags | libc::MSG_DONTWAIT) {
        Ok(0) => ReceiveStep::End,
        Ok(bytes) => {
            if flags & libc::MSG_PEEK == 0 {
                undecided.taken += bytes as u64;
                count(&mut half.received, &half.line, bytes);
            }
            ReceiveStep::Done(bytes)
        }
        Err(errno @ Errno(libc::EAGAIN)) if is_impatient(socket, flags) => {
            ReceiveStep::Failed(errno)
        }
        Err(Errno(libc::EAGAIN)) => {
            // Who sleeps in the kernel hears no bell: until it wakes, no offer is claimed.
            socket.sleepers.fetch_add(1, AcqRel);
            ReceiveStep::Undecided
        }
        Err(errno) => ReceiveStep::Failed(errno),
    }
}
