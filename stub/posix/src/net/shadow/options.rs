//! Options of the shadow: what the program asked for, and what bells need instead.

use heliostat_base::call;
use heliostat_base::sync::AtomicBool;
use heliostat_base::sync::Ordering::{Acquire, Relaxed, Release};

use crate::net::socket::Socket;

/// TCP_NODELAY, as the program set it.
pub const NODELAY: u32 = 1;
/// TCP_CORK, as the program set it.
pub const CORK: u32 = 2;
/// The shadow has been made fit for bells, and does not tell any more what the program asked for.
pub const BELLS: u32 = 4;
/// Bytes are held back in the ring.
pub const HOLDS: u32 = 8;
/// The shadow's SO_SNDBUF has been widened for bells.
pub const WIDE: u32 = 16;
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

/// Notes what the program asked for; true when it is on.
pub fn remember(socket: &Socket, bit: u32, value: &[u8]) -> bool {
    let is_on = value.iter().take(4).any(|byte| *byte != 0);
    match is_on {
        true => socket.delay_options.fetch_or(bit, Relaxed),
        false => socket.delay_options.fetch_and(!bit, Relaxed),
    };
    is_on
}

/// What was set before connect(2), or on the listening socket, is so on the stream too.
pub fn note_early(fd: i32, socket: &Socket) {
    note_cork(fd, socket);
    note_linger(fd, socket);
}

/// It holds back in the ring.
fn note_cork(fd: i32, socket: &Socket) {
    if CORKED_EARLY.load(Acquire)
        && call::option(fd, libc::IPPROTO_TCP, libc::TCP_CORK).is_ok_and(|on| on != 0)
    {
        socket.delay_options.fetch_or(CORK, Relaxed);
    }
}

/// It closes with a reset here too.
fn note_linger(fd: i32, socket: &Socket) {
    if LINGERS_EARLY.load(Acquire) {
        socket.closes_with_reset.store(call::is_linger_zero(fd), Relaxed);
    }
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

/// Makes the shadow send bells at once, where the program's own choice is known.
pub fn send_bells_at_once(fd: i32, socket: &Socket) {
    if socket.delay_options.fetch_or(BELLS, Relaxed) & BELLS == 0 {
        let _ = call::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    }
}
