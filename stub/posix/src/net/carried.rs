//! Whether a loop of the network service has a connection's socket, and whether it still does.
//!
//! How it gets the socket, and how that comes back, is in `delegated`.

use heliostat_abi::stream::channel::direction::{RESET, SWITCHED};
use heliostat_base::sync::Ordering::{Acquire, Relaxed};

use super::socket::{self, Socket, Stream};

/// True while a loop has the connection's socket.
#[inline]
pub fn is_carried(socket: &Socket) -> bool {
    socket.carried.load(Acquire) != 0
}

/// True when the loop that has the socket is gone, and has not given it back: it was killed.
#[cold]
pub fn is_lost(socket: &Socket, stream: &Stream) -> bool {
    is_carried(socket)
        && socket.shadow_ended.load(Acquire)
        && stream.incoming.flags() & (RESET | SWITCHED) == 0
        && !stream.slot.peer_left(stream.side)
}

/// True when the loop has let the socket go, or is gone: the connection goes on at its descriptor.
#[cold]
pub fn has_let_go(socket: &Socket, stream: &Stream) -> bool {
    is_lost(socket, stream)
        || is_carried(socket) && stream.incoming.flags() & (RESET | SWITCHED) == SWITCHED
}

/// The program has taken the socket back, and reads what lies in the ring first: all else of the
/// connection is what the kernel says of its descriptor.
#[inline]
pub fn has_come_back(socket: &Socket) -> bool {
    socket.was_carried.load(Relaxed) && !is_carried(socket)
}

/// A child of vfork has taken the connection back, and this process's numbers are its shadow's still.
pub fn is_left_by_child(socket: &Socket) -> bool {
    is_carried(socket) && socket.is_native()
}

/// The TCP socket of connection `index`, if a loop has it too: what its names, and all that no ring
/// and no bell concerns, are asked of.
#[inline]
pub fn socket_of(index: u32) -> Option<i32> {
    match socket::at(index).carried.load(Acquire) {
        0 => None,
        fd => Some(fd),
    }
}
