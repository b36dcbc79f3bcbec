//! Socket options and ioctls whose answer differs on a direct stream.

use std::sync::atomic::Ordering::{Relaxed, Release};

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_base::sys::Errno;

use super::shadow::options::{self, BELLS, CORK, NODELAY, WIDE};
use super::socket::{self, Connection, Socket};
use super::{accept, carried, demote, early, end, hold, shadow};
use crate::Answer;

/// setsockopt(2): `None` passes it to the shadow as it is.
pub fn set(fd: i32, index: u32, level: i32, name: i32, value: &[u8]) -> Answer {
    let socket = socket::at(index);
    if socket.is_native() {
        return None;
    }
    // Payload goes over the shadow still, as the program would have it.
    let is_early = socket.stage().is_kernels();
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) if is_early => None,
        (libc::IPPROTO_TCP, libc::TCP_CORK) if is_early => {
            // The ring that is begun later holds back too.
            options::remember(socket, CORK, value);
            None
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => set_delay(fd, index, NODELAY, value),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => set_delay(fd, index, CORK, value),
        // What is unread in the ring is the protocol's too (kTLS), and comes back in front of what follows.
        (libc::IPPROTO_TCP, libc::TCP_ULP | libc::TCP_REPAIR) => {
            demote::leave_at_once(fd, index, Native::Option);
            None
        }
        (libc::IPPROTO_TCP, libc::TCP_MD5SIG) => {
            demote::leave(fd, index, Native::Option);
            None
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
            socket.delay_options.fetch_and(!WIDE, Relaxed);
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
fn set_delay(fd: i32, index: u32, bit: u32, value: &[u8]) -> Answer {
    let socket = socket::at(index);
    let Some(value) = value.get(..4) else { return Some(Err(Errno(libc::EINVAL))) };
    // What was in force before need not be asked of the kernel when it is overwritten now.
    let is_corked = socket.delay_options.load(Relaxed) & CORK != 0;
    match bit {
        NODELAY if !is_corked => options::send_bells_at_once(fd, socket),
        _ => options::prepare_for_bells(fd, socket),
    }
    let is_on = options::remember(socket, bit, value);
    if is_on == (bit == NODELAY) {
        hold::push(fd, index);
    }
    set_delay_of_socket(index);
    Some(Ok(0))
}

/// TCP_NODELAY of a carried connection holds for its socket at once: it is its bytes that wait for each
/// other or not.
fn set_delay_of_socket(index: u32) {
    if let Some(hidden) = carried::socket_of(index) {
        let options = socket::at(index).delay_options.load(Relaxed);
        let is_on = i32::from(options & NODELAY != 0);
        let _ = call::set_option(hidden, libc::IPPROTO_TCP, libc::TCP_NODELAY, is_on);
    }
}

/// Where setsockopt(2) goes on a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// As it is: the descriptor is the connection's own.
    Shadow,
    /// To the TCP socket of a carried connection instead.
    Socket,
    /// To that, and then as it is.
    Both,
}

/// Where setsockopt(2) goes, after `set` had nothing to say.
pub fn goes_to(fd: i32, index: u32, level: i32, name: i32, value: &[u8]) -> Asked {
    if carried::socket_of(index).is_none() {
        return Asked::Shadow;
    }
    // A close that waits is the kernel's.
    let waits = || value.len() >= 8 && value[..4] != [0; 4] && value[4..8] != [0; 4];
    match (level, name) {
        // Waits are slept on the shadow.
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => Asked::Both,
        (libc::SOL_SOCKET, libc::SO_LINGER) if waits() => {
            demote::leave_at_once(fd, index, Native::Option);
            Asked::Shadow
        }
        _ => Asked::Socket,
    }
}

/// getsockopt(2) of an int that the shadow would answer wrongly.
pub fn get(fd: i32, index: u32, level: i32, name: i32) -> Option<i32> {
    let socket = socket::at(index);
    if socket.is_native() {
        return None;
    }
    if carried::has_come_back(socket) {
        return None;
    }
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
        return match socket.stage().is_kernels() {
            true => shadow::take_kernels_error(socket).map(|Errno(errno)| errno),
            false => Some(error_now(fd, socket)),
        };
    }
    let options = socket.delay_options.load(Relaxed);
    if (level, name) == (libc::SOL_SOCKET, libc::SO_SNDBUF) && options & WIDE != 0 {
        return Some(socket.send_buffer.load(Relaxed));
    }
    if level == libc::IPPROTO_TCP && options & BELLS == 0 {
        return None;
    }
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Some(i32::from(options & NODELAY != 0)),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Some(i32::from(options & CORK != 0)),
        _ => None,
    }
}

/// SO_ERROR of a direct stream: the shadow's own error may be nothing but unread bells.
fn error_now(fd: i32, socket: &Socket) -> i32 {
    let Some(stream) = socket.stream() else { return 0 };
    shadow::probe(fd, socket);
    end::settle(socket, &stream);
    end::take_error(socket).map_or(0, |Errno(errno)| errno)
}

/// O_NONBLOCK of the open file description changed (fcntl, FIONBIO).
pub fn note_nonblocking(index: u32, on: bool) {
    socket::at(index).nonblocking.store(on, Release);
}

/// FIONREAD and SIOCOUTQ: bytes to read, bytes not read yet by the peer.
pub fn queued(fd: i32, index: u32, outgoing: bool) -> Option<i32> {
    let socket = socket::at(index);
    if socket.is_early() {
        let stream = socket.stream()?;
        // An offer that is proven is counted by the rings, and what proves it is no payload.
        accept::learn_more(fd, index);
        if socket.stage().is_kernels() {
            return None;
        }
        if !outgoing {
            return early::queued(Connection::new(fd, socket, &stream))
                .map(|bytes| bytes.min(i32::MAX as u64) as i32);
        }
    }
    let lane = match outgoing {
        false => socket.receiver.lock().stream.as_ref()?.incoming.clone(),
        true => socket.sender.lock().stream.as_ref()?.outgoing.clone(),
    };
    let bytes = if outgoing { lane.unsent() } else { lane.unread() };
    bytes.ok().map(|bytes| bytes.min(i32::MAX as u64) as i32)
}
