//! Socket options and ioctls whose answer differs on a direct stream.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::Arc;

use heliostat_abi::code::Native;
use heliostat_abi::name::NetAddress;
use heliostat_abi::report::{Counter, Entry, Path};
use heliostat_base::call;
use heliostat_base::sys::Errno;

use super::channel::Side;
use super::socket::{self, Socket};
use super::{demote, shadow};
use crate::{report, Answer};

const NODELAY: u32 = 1;
const CORK: u32 = 2;
/// The shadow has been made fit for bells, and does not tell any more what the program asked for.
const BELLS: u32 = 4;

/// setsockopt(2): `None` passes it to the shadow as it is.
pub fn set(fd: i32, index: u32, level: i32, name: i32, value: &[u8]) -> Answer {
    let socket = socket::at(index);
    if socket.is_native() {
        return None;
    }
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => set_delay(fd, socket, NODELAY, value),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => set_delay(fd, socket, CORK, value),
        (libc::IPPROTO_TCP, libc::TCP_ULP | libc::TCP_REPAIR | libc::TCP_MD5SIG) => {
            demote::leave(fd, index, Native::Option);
            None
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let is_reset = value.len() >= 8 && value[..4] != [0; 4] && value[4..8] == [0; 4];
            socket.closes_with_reset.store(is_reset, Relaxed);
            None
        }
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT | libc::SO_OOBINLINE | libc::SO_TIMESTAMP)
        | (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER | libc::SO_ZEROCOPY) => {
            demote::leave(fd, index, Native::Option);
            None
        }
        _ => None,
    }
}

/// The shadow sends at once, since its bytes are bells; what the program asked for is remembered,
/// told back, and put in force when the connection goes native.
fn set_delay(fd: i32, socket: &Socket, bit: u32, value: &[u8]) -> Answer {
    let Some(value) = value.get(..4) else { return Some(Err(Errno(libc::EINVAL))) };
    // What was in force before need not be asked of the kernel when it is overwritten now.
    match bit {
        NODELAY => send_bells_at_once(fd, socket),
        _ => prepare_for_bells(fd, socket),
    }
    match value.iter().any(|byte| *byte != 0) {
        true => socket.delay_options.fetch_or(bit, Relaxed),
        false => socket.delay_options.fetch_and(!bit, Relaxed),
    };
    Some(Ok(0))
}

/// getsockopt(2) of an int that the shadow would answer wrongly.
pub fn get(index: u32, level: i32, name: i32) -> Option<i32> {
    let socket = socket::at(index);
    if socket.is_native() {
        return None;
    }
    let options = socket.delay_options.load(Relaxed);
    if level == libc::IPPROTO_TCP && options & BELLS == 0 {
        return None;
    }
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Some(i32::from(options & NODELAY != 0)),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Some(i32::from(options & CORK != 0)),
        (libc::SOL_SOCKET, libc::SO_ERROR) => shadow::take_error(socket).map(|Errno(errno)| errno),
        _ => None,
    }
}

/// Puts the program's own choice in force on a connection that goes native.
pub fn restore_delay(fd: i32, socket: &Socket) {
    let options = socket.delay_options.load(Relaxed);
    if options & BELLS == 0 {
        return;
    }
    let on = |bit| i32::from(options & bit != 0);
    let _ = call::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, on(NODELAY));
    if options & CORK != 0 {
        let _ = call::set_option(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
    }
}

/// Makes the shadow fit for bells, before the first one is rung: they must not wait for each
/// other, as Nagle's rule would have it. What the program had asked for is remembered.
pub fn prepare_for_bells(fd: i32, socket: &Socket) {
    if socket.delay_options.fetch_or(BELLS, Relaxed) & BELLS != 0 {
        return;
    }
    if call::option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY).unwrap_or(0) != 0 {
        socket.delay_options.fetch_or(NODELAY, Relaxed);
    }
    let _ = call::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
}

fn send_bells_at_once(fd: i32, socket: &Socket) {
    if socket.delay_options.fetch_or(BELLS, Relaxed) & BELLS == 0 {
        let _ = call::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    }
}

/// O_NONBLOCK of the open file description changed (fcntl, FIONBIO).
pub fn note_nonblocking(index: u32, on: bool) {
    socket::at(index).nonblocking.store(on, Release);
}

/// FIONREAD and SIOCOUTQ: bytes to read, bytes not read yet by the peer.
pub fn queued(index: u32, outgoing: bool) -> Option<i32> {
    let socket = socket::at(index);
    let lane = match outgoing {
        false => socket.receiver.lock().stream.as_ref()?.incoming.clone(),
        true => socket.sender.lock().stream.as_ref()?.outgoing.clone(),
    };
    lane.unread().ok().map(|bytes| bytes.min(i32::MAX as u64) as i32)
}

/// Gives a connection its line in the report; `ends` are its own and its peer's address, asked of
/// the kernel when not known.
pub fn report_new(
    fd: i32,
    socket: &Socket,
    side: Side,
    path: Path,
    ends: Option<(NetAddress, NetAddress)>,
) {
    match path {
        Path::Direct => report::count(Counter::Direct),
        Path::Native(reason) => report::count_native(reason),
    }
    let Some(ends) = ends.or_else(|| ends_of(fd)) else { return };
    let line = report::line(&entry_of(fd, socket, side == Side::Server, path, ends)).map(Arc::new);
    socket.receiver.lock().line = line.clone();
    socket.sender.lock().line = line;
}

fn ends_of(fd: i32) -> Option<(NetAddress, NetAddress)> {
    let local = NetAddress::new(call::local_address(fd)?);
    Some((local, NetAddress::new(call::peer_address(fd)?)))
}

/// Rewrites the line of a connection that went native.
pub fn report_native(socket: &Socket, fd: i32, reason: Native) {
    let line = socket.receiver.lock().line.clone();
    let Some(line) = line else { return };
    if let Some(ends) = ends_of(fd) {
        line.write(&entry_of(fd, socket, line.accepted, Path::Native(reason), ends));
    }
}

fn entry_of(
    fd: i32,
    socket: &Socket,
    accepted: bool,
    path: Path,
    (local, peer): (NetAddress, NetAddress),
) -> Entry {
    let received = socket.receiver.lock().received;
    Entry { fd, path, accepted, local, peer, received, sent: socket.sender.lock().sent }
}

/// Adds bytes that the kernel moved on a native connection, for the report.
pub fn count_native(index: u32, received: u64, sent: u64) {
    let socket = socket::at(index);
    if !socket.is_native() || socket.generation() == 0 {
        return;
    }
    if received > 0 {
        let mut half = socket.receiver.lock();
        half.received += received;
        let total = half.received;
        half.line.iter().for_each(|line| line.received(total));
    }
    if sent > 0 {
        let mut half = socket.sender.lock();
        half.sent += sent;
        let total = half.sent;
        half.line.iter().for_each(|line| line.sent(total));
    }
}
