//! Delegated streams: a connection to a remote peer, whose socket a loop of the network service has.
//!
//! ```text
//!   descriptor: near end of a local pair  = the shadow        hidden number: the TCP socket
//!       | bells, who is gone                                      | names, options, the way back
//!   far end --+-- loop --+-- copy of the TCP socket ---- remote peer
//!             +== lanes ==+
//! ```
//! To everything above, such a stream is a direct one: the slot is Proven from its beginning, and the
//! loop is its acceptor, whichever side called connect(2). What differs is told here: how it begins
//! (`begin`), how the socket comes back to the descriptor (`back`), also when the loop is killed, and
//! what is asked of the socket instead of the shadow (`asked`).

mod asked;
mod back;
mod begin;
mod carriers;
mod hidden;

use std::sync::atomic::Ordering::Acquire;

use heliostat_abi::stream::channel::direction::{RESET, SWITCHED};

use super::socket::{Socket, Stream};

pub use asked::{ask_socket, set_delay, socket_of, Asked};
pub use back::{finish_swap, is_lost_at_close, take_back, take_back_renamed, TakenBack};
pub use begin::{accepted, connected};
pub use carriers::reset_in_forked_child;
pub use hidden::{drop_hidden, owned, vacate};

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

/// True when the loop has given the socket back, because the grant was revoked.
#[cold]
pub fn is_given_back(socket: &Socket, stream: &Stream) -> bool {
    is_carried(socket) && stream.incoming.flags() & SWITCHED != 0
}
