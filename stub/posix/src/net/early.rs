//! The beginning of a stream: what is the kernel's until both ends know that they share rings.
//!
//! A connection is native until it is claimed, and waits for nothing. What either end sends before
//! its own ring is begun goes over the shadow by ordinary calls, and is counted (`prefix`). The client
//! begins its ring when it sees the claim, and then tells the acceptor's secret on the shadow: only
//! who holds the connection can. The acceptor begins its ring when it has seen the secret; until then
//! it believes nothing that the channel says, since anybody may have made the offer.
//!
//! ```text
//!               Offered ------> Started ----> Settled        client
//! Undecided --> Accepted -----> Started ----> Settled        acceptor
//! ```
//! Each of these may go native instead. What holds in each of them is said at `socket::Stage`; all that
//! is done here is done only once or seldom for a connection, and may make system calls.

pub mod proof;
mod ready;
mod take;

use std::io::IoSlice;
use std::sync::atomic::Ordering::{Relaxed, Release};

use heliostat_abi::limits::OFFER_PATIENCE_MS;
use heliostat_abi::stream::channel::{slot, SlotState};
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};

use super::channel::Side;
use super::shadow;
use super::socket::{Connection, Socket, Stage, Stream};

pub use ready::*;
pub use take::*;

/// A writer to whom no bell comes looks for room this often.
pub const BELL_PAUSE_NS: u64 = 2_000_000;

/// Where the next byte goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendPath {
    /// Into the ring.
    Ring,
    /// Over the shadow, counted.
    Shadow,
    /// Over the shadow for good: there is no stream any more.
    Native,
}

/// Where the next byte goes; begins the client's ring if it can be begun. Under the sender's lock.
pub fn send_path(connection: Connection<'_>) -> SendPath {
    let Connection { socket, stream, .. } = connection;
    match (socket.stage(), stream.slot.state()) {
        (Stage::Offered, _) if start(connection) => SendPath::Ring,
        (Stage::Offered, SlotState::Offered | SlotState::Claimed) => SendPath::Shadow,
        (Stage::Accepted, SlotState::Claimed | SlotState::Started) => SendPath::Shadow,
        (Stage::Accepted, SlotState::Proven) if proof::follow_other(socket) => SendPath::Ring,
        (Stage::Offered | Stage::Accepted, _) => SendPath::Native,
        _ => SendPath::Ring,
    }
}

/// Begins the client's ring if its offer is claimed; `tell` is owed then. False while it is not, and
/// while the secret could not follow at once and whole. Under the sender's lock.
pub fn start(connection: Connection<'_>) -> bool {
    let Connection { fd, socket, stream } = connection;
    let (slot, lane) = (&stream.slot, &stream.outgoing);
    if socket.stage() != Stage::Offered || slot.state() != SlotState::Claimed {
        return false;
    }
    // With an end on the shadow the kernel's answers are the right ones.
    if slot.peer_may_be_gone(Side::Client) && call::events_now(fd, libc::POLLRDHUP) != 0 {
        return false;
    }
    // Behind bytes that are not sent yet the secret might be cut in two.
    if lane.prefix() > 0 && call::bytes_unsent(fd) != Ok(0) {
        return false;
    }
    let Some(secret) = slot.secret() else { return false };
    lane.count_bells(slot::SECRET_BYTES as u32);
    if !slot.start() {
        lane.uncount_bells(slot::SECRET_BYTES as u32);
        return false;
    }
    socket.set_secret(&secret);
    socket.is_secret_due.store(true, Release);
    socket.set_stage(Stage::Started);
    prepare(connection);
    true
}

/// Nothing that was sent before the ring may wait for bytes that follow it: none will.
fn prepare(connection: Connection<'_>) {
    let Connection { fd, socket, stream } = connection;
    if stream.outgoing.prefix() > 0 || shadow::options::is_corked(socket) {
        shadow::options::prepare_for_bells(fd, socket);
    }
}

/// Tells the secret where that is owed, and no bell has told it. `written` bytes at the end of the
/// ring were written with it. Under the sender's lock.
pub fn tell(connection: Connection<'_>, written: u64) {
    let Connection { fd, socket, stream } = connection;
    if socket.is_secret_due.load(Relaxed) {
        shadow::tell_secret(fd, socket, &stream.outgoing, written);
    }
}

/// Begins the client's ring and tells the secret, if that can be done now. Not under the sender's lock.
pub fn start_and_tell(connection: Connection<'_>) -> bool {
    let Connection { socket, .. } = connection;
    let Some(sender) = socket.sender.try_lock() else { return false };
    let is_started = sender.stream.is_some() && start(connection);
    if is_started {
        tell(connection, 0);
    }
    is_started
}

/// A client that reads begins its ring too, once something has come: one that reads a single answer
/// gains nothing by it.
fn start_by_reading(connection: Connection<'_>) {
    let Connection { socket, stream, .. } = connection;
    let is_due = socket.stage() == Stage::Offered
        && stream.slot.state() == SlotState::Claimed
        && stream.incoming.taken() > 0;
    if is_due {
        start_and_tell(connection);
    }
}

/// True while bytes that come in beside an unanswered offer may be an acceptor's that waits for it.
fn keeps_offer(socket: &Socket, stream: &Stream) -> bool {
    let age = || clock::monotonic_ns().saturating_sub(socket.offered_at_ns.load(Relaxed));
    stream.slot.may_have_been_written() && age() < OFFER_PATIENCE_MS * 1_000_000
}

/// Sends what the kernel takes at once, and counts it. Under the sender's lock.
pub fn send_shadow(
    fd: i32,
    stream: &Stream,
    buffers: &[IoSlice<'_>],
    flags: i32,
) -> Result<usize, Errno> {
    let count = call::send_many(fd, buffers, flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)?;
    stream.outgoing.extend_prefix(count as u64);
    Ok(count)
}

/// As `send_shadow`, of a file's bytes. Only what the socket took counts as read.
pub fn send_file(
    fd: i32,
    stream: &Stream,
    file: i32,
    offset: Option<u64>,
    limit: usize,
) -> Result<usize, Errno> {
    let at = match offset {
        Some(offset) => offset,
        None => call::lseek(file, 0, libc::SEEK_CUR)? as u64,
    };
    let mut bytes = vec![0; limit];
    let count = call::pread(file, &mut bytes, at)?;
    if count == 0 {
        return Ok(0);
    }
    let sent = send_shadow(fd, stream, &[IoSlice::new(&bytes[..count])], 0)?;
    if offset.is_none() {
        call::lseek(file, (at + sent as u64) as i64, libc::SEEK_SET)?;
    }
    Ok(sent)
}
