//! The end of a connection that has come back, and of which its loop still has a duplicate.
//!
//! A loop that is stopped closes its duplicate when it goes on. Until then close(2) of the program's own
//! descriptor ends nothing, since the kernel counts the other; so the end is told by other calls before it.
//! Not where another process may have the connection too: then it goes on until that has closed.

use heliostat_base::call;
use heliostat_base::sync::AtomicU32;
use heliostat_base::sync::Ordering::Relaxed;

use crate::net::carried;
use crate::net::socket::{Socket, Stream};

/// Processes that this one has made: each has what was open then, unless it closes it.
static CHILDREN: AtomicU32 = AtomicU32::new(0);
/// Stands for a connection that another process was given.
const GIVEN: u32 = u32::MAX;

/// Before a process is made.
pub fn child_made() {
    let _ = CHILDREN.fetch_update(Relaxed, Relaxed, |count| Some((count + 1) % GIVEN));
}

/// A connection begins to be carried.
pub fn note_begin(socket: &Socket) {
    socket.children.store(CHILDREN.load(Relaxed), Relaxed);
}

/// Its descriptor goes to another process, or the kernel uses it by itself.
pub fn note_given(socket: &Socket) {
    socket.children.store(GIVEN, Relaxed);
}

/// Before the last descriptor of a connection is closed: its peer is told as if that was the last of all.
pub fn end_before_close(fd: i32, socket: &Socket) {
    let is_alone = socket.children.load(Relaxed) == CHILDREN.load(Relaxed);
    if !carried::has_come_back(socket) || !is_alone || socket.inherited.load(Relaxed) {
        return;
    }
    // Nobody waits here: a handler may have interrupted whoever has it.
    let Some(half) = socket.receiver.try_lock() else { return };
    let Some(stream) = half.stream.as_ref().or(half.left.as_ref()) else { return };
    if stream.slot.has_peer_let_go(stream.side) {
        return;
    }
    // Bytes that nobody reads are a reset (RFC 2525, 2.17).
    let is_unread = has_unread(fd, half.stream.as_ref());
    match is_unread || socket.closes_with_reset.load(Relaxed) || call::is_linger_zero(fd) {
        true => call::reset(fd),
        false => _ = call::shutdown(fd, libc::SHUT_RDWR),
    }
}

fn has_unread(fd: i32, stream: Option<&Stream>) -> bool {
    stream.is_some_and(|stream| stream.incoming.unread() != Ok(0))
        || call::bytes_queued(fd).is_ok_and(|bytes| bytes > 0)
}
