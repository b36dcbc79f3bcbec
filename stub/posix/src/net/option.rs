//! Socket options and ioctls whose answer differs on a direct stream.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::Arc;

use heliostat_abi::code::Native;
use heliostat_abi::name::NetAddress;
use heliostat_abi::report::{Counter, Entry, Path};
use heliostat_base::call;
use heliostat_base::sys::Errno;
use heliostat_client::session;

use super::channel::Side;
use super::early;
use super::socket::{self, Socket};
use super::{demote, end, hold, shadow};
use crate::table::{self, Kind};
use crate::{report, Answer};

const NODELAY: u32 = 1;
/// TCP_CORK, as the program set it.
pub const CORK: u32 = 2;
/// The shadow has been made fit for bells, and does not tell any more what the program asked for.
const BELLS: u32 = 4;
/// Bytes are held back in the ring.
pub const HOLDS: u32 = 8;
/// The shadow's SO_SNDBUF has been widened for bells.
const WIDE: u32 = 16;
/// SO_SNDBUF that takes bells beside anything. The kernel doubles what it is given.
const BELLS_BUFFER: i32 = 256 * 1024;
/// TCP_CORK was set on a socket that was no connection yet; new ones are asked for it from then on.
static CORKED_EARLY: AtomicBool = AtomicBool::new(false);
/// SO_LINGER, likewise.
static LINGERS_EARLY: AtomicBool = AtomicBool::new(false);

/// setsockopt(2) on a socket that is no connection yet, and may become one or listen for some.
pub fn set_early(level: i32, name: i32) {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_CORK) => CORKED_EARLY.store(true, Release),
        (libc::SOL_SOCKET, libc::SO_LINGER) => LINGERS_EARLY.store(true, Release),
        _ => {}
    }
}

/// A listening socket that came from another program may have had any of these set there.
pub fn set_elsewhere() {
    CORKED_EARLY.store(true, Release);
    LINGERS_EARLY.store(true, Release);
}

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
            remember(socket, CORK, value);
            None
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => set_delay(fd, index, NODELAY, value),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => set_delay(fd, index, CORK, value),
        (libc::IPPROTO_TCP, libc::TCP_ULP | libc::TCP_REPAIR | libc::TCP_MD5SIG) => {
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
        NODELAY if !is_corked => send_bells_at_once(fd, socket),
        _ => prepare_for_bells(fd, socket),
    }
    let is_on = remember(socket, bit, value);
    if is_on == (bit == NODELAY) {
        hold::push(fd, index);
    }
    Some(Ok(0))
}

/// Notes what the program asked for; true when it is on.
fn remember(socket: &Socket, bit: u32, value: &[u8]) -> bool {
    let is_on = value.iter().take(4).any(|byte| *byte != 0);
    match is_on {
        true => socket.delay_options.fetch_or(bit, Relaxed),
        false => socket.delay_options.fetch_and(!bit, Relaxed),
    };
    is_on
}

/// getsockopt(2) of an int that the shadow would answer wrongly.
pub fn get(fd: i32, index: u32, level: i32, name: i32) -> Option<i32> {
    let socket = socket::at(index);
    if socket.is_native() {
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

/// Puts the program's own choice in force on a connection that goes native.
pub fn restore_delay(fd: i32, socket: &Socket) {
    let options = socket.delay_options.load(Relaxed);
    if options & WIDE != 0 {
        let bytes = socket.send_buffer.load(Relaxed) / 2;
        let _ = call::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes);
    }
    if options & BELLS == 0 {
        return;
    }
    let on = |bit| i32::from(options & bit != 0);
    let _ = call::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, on(NODELAY));
    if options & CORK != 0 {
        let _ = call::set_option(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
    }
}

/// True while TCP_CORK holds back what is sent on the shadow, as far as is known.
pub fn is_corked(socket: &Socket) -> bool {
    socket.delay_options.load(Relaxed) & CORK != 0
}

/// Makes the shadow fit for bells, before the first one is rung: they must not wait for each
/// other, as Nagle's rule would have it. What the program had asked for is remembered.
pub fn prepare_for_bells(fd: i32, socket: &Socket) {
    if socket.delay_options.fetch_or(BELLS, Relaxed) & BELLS != 0 {
        return;
    }
    for (name, bit) in [(libc::TCP_NODELAY, NODELAY), (libc::TCP_CORK, CORK)] {
        if call::option(fd, libc::IPPROTO_TCP, name).unwrap_or(0) != 0 {
            socket.delay_options.fetch_or(bit, Relaxed);
        }
    }
    if socket.delay_options.load(Relaxed) & CORK != 0 {
        let _ = call::set_option(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
    }
    let _ = call::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
}

/// Makes room for bells in a small SO_SNDBUF, whose size is remembered. False when nothing came of it.
#[cold]
pub fn widen_for_bells(fd: i32, socket: &Socket) -> bool {
    let Ok(bytes) = call::option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF) else { return false };
    let is_wide = socket.delay_options.load(Relaxed) & WIDE != 0;
    if is_wide || bytes >= BELLS_BUFFER {
        return false;
    }
    socket.send_buffer.store(bytes, Relaxed);
    socket.delay_options.fetch_or(WIDE, Relaxed);
    call::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, BELLS_BUFFER / 2).is_ok()
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
pub fn queued(fd: i32, index: u32, outgoing: bool) -> Option<i32> {
    let socket = socket::at(index);
    if socket.is_early() {
        let stream = socket.stream()?;
        // An offer that is proven is counted by the rings, and what proves it is no payload.
        early::learn_more(fd, index);
        if socket.stage().is_kernels() {
            return None;
        }
        if !outgoing {
            return early::queued(fd, socket, &stream)
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
        Path::Direct => {
            report::count(Counter::Direct);
            note_cork(fd, socket);
            note_linger(fd, socket);
        }
        Path::Native(reason) => report::count_native(reason),
    }
    socket.accepted.store(side == Side::Server, Relaxed);
    give_line(fd, socket, path, ends);
}

/// What was set before connect(2), or on the listening socket, holds back in the ring too.
fn note_cork(fd: i32, socket: &Socket) {
    if CORKED_EARLY.load(Acquire)
        && call::option(fd, libc::IPPROTO_TCP, libc::TCP_CORK).is_ok_and(|on| on != 0)
    {
        socket.delay_options.fetch_or(CORK, Relaxed);
    }
}

/// What was set before closes with a reset here too.
fn note_linger(fd: i32, socket: &Socket) {
    if LINGERS_EARLY.load(Acquire) {
        socket.closes_with_reset.store(call::is_linger_zero(fd), Relaxed);
    }
}

/// Lists an accepted connection of which nobody knows yet what it becomes; it is counted then.
pub fn list_undecided(fd: i32, socket: &Socket) {
    socket.accepted.store(true, Relaxed);
    give_line(fd, socket, Path::Native(Native::Undecided), None);
}

/// The line; `Side` is what `socket.accepted` says.
fn give_line(fd: i32, socket: &Socket, path: Path, ends: Option<(NetAddress, NetAddress)>) {
    let accepted = socket.accepted.load(Relaxed);
    let Some(ends) = ends.or_else(|| ends_of(fd)) else { return };
    let line = report::line(&entry_of(fd, socket, accepted, path, ends)).map(Arc::new);
    socket.receiver.lock().line = line.clone();
    socket.sender.lock().line = line;
}

/// In a forked child that is about to wait: lists the connections that it got from its parent, whose
/// lines stay the parent's. They were counted where they began.
pub fn list_inherited() {
    let mut seen = BTreeSet::new();
    for (fd, kind) in table::walk(0, u32::MAX) {
        let Kind::Socket(index) = kind else { continue };
        let socket = socket::at(index);
        if !seen.insert(index) || socket.receiver.lock().line.is_some() {
            continue;
        }
        session::be_known();
        give_line(fd, socket, socket.path(), None);
    }
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
