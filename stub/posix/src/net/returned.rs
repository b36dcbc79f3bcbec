//! What poll(2) and epoll say of a connection that has come back, and some of whose bytes lie in the ring.
//!
//! The descriptor is the TCP socket again, so the kernel knows of its room, its errors and its ends; the
//! ring knows alone that there is something to read in front of all that. Once that is read, the
//! connection is the kernel's (`demote::follow`).

use heliostat_base::call;

use super::carried;
use super::ready::{HUP, IN, OUT, RDHUP, RDNORM, WRNORM};
use super::socket::{Socket, Stream};

/// What the kernel may be asked for.
const ASKED: u32 = IN | OUT | RDHUP | RDNORM | WRNORM | PRI | RDBAND | WRBAND;
const PRI: u32 = libc::EPOLLPRI as u32;
const RDBAND: u32 = libc::EPOLLRDBAND as u32;
const WRBAND: u32 = libc::EPOLLWRBAND as u32;

/// True while some of its bytes lie in the ring, in front of the kernel's.
pub fn is_reading(socket: &Socket) -> bool {
    carried::has_come_back(socket) && !socket.is_native()
}

/// What is ready of the events that are `wanted`, with errors and ends. True beside it once the ring is
/// empty: what the kernel says holds alone.
#[cold]
pub fn events(fd: i32, stream: &Stream, wanted: u32) -> (u32, bool) {
    if stream.incoming.unread() == Ok(0) {
        return (0, true);
    }
    let now = call::events_now(fd, kernels(wanted) as i16) as u16 as u32;
    (now | IN | RDNORM, false)
}

/// The events among them that poll(2) knows too.
pub fn kernels(wanted: u32) -> u32 {
    wanted & (ASKED | HUP)
}
