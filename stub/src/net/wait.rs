//! How a thread waits for its peer: a short spin that yields, then sleep in the kernel.
//!
//! The sleeper says so in the lane, looks once more, and sleeps *on the shadow*: in recv(2) with
//! MSG_PEEK for reading, in poll(2) for writing. So the bell, the peer's end, a reset, SO_RCVTIMEO,
//! signals and thread cancellation all end the wait exactly as they end the kernel's own.
//! Of several threads asleep on one connection the first sleeps on the shadow, the others on a
//! word that the first bumps when it wakes.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use heliostat_abi::channel::direction::{FIN, RESET, SWITCHED};
use heliostat_abi::report::Counter;
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock, futex, spin};

use super::socket::{Socket, Stream};
use super::{connect, demote, shadow};
use crate::report;
use crate::thread::{self, Interrupts};

/// Quiet time that is spun away before sleeping; longer than waking a thread of another core
/// takes, since otherwise two peers that slept once keep each other sleeping.
const SPIN_NS: u64 = 50_000;
/// A peer on another core is looked for without a pause for this long (1 to 2 us).
const EAGER_CYCLES: u64 = 4_000;
/// Looks between two yields, for a peer on another core.
const LOOKS_PER_YIELD: u32 = 8;
/// A yield that took this long let somebody else work: the peer may be on this very core, so the
/// quiet time starts anew.
const WORKED_NS: u64 = 1_500;
/// How often that may happen in a row, so that a busy neighbour does not keep us awake for ever.
const RENEWALS_MAX: u32 = 200;
/// Room that ends a writer's wait while it spins; one that sleeps is woken when a third is free.
const ROOM_WORTH_WAKING: u64 = 2 * super::send::PIECE_BYTES as u64;
/// A second sleeper relies on the first for this long.
const FOLLOWER_LIMIT: Duration = Duration::from_millis(20);

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// Something may have changed: look again.
    Look,
    /// A signal handler ran and the call is not restarted.
    Interrupted,
    /// The socket's timeout is over.
    TimedOut,
}

/// Spins until `ready`, at most for a short quiet time; true when ready. `give_up` is asked
/// between turns (signals).
///
/// A peer on another core answers within a microsecond, and looking is all there is to do; a peer
/// on this core answers only once it has been given the core. Which of both it is this thread
/// learns from how its last waits ended.
pub fn spin(mut ready: impl FnMut() -> bool, mut give_up: impl FnMut() -> bool) -> bool {
    let is_near = thread::peer_is_near();
    if !is_near {
        let began = clock::cycles();
        while clock::cycles() - began < EAGER_CYCLES {
            if ready() {
                thread::note_peer(false);
                return true;
            }
        }
    }
    let mut began = clock::monotonic_ns();
    let mut before = began;
    let mut renewals = 0;
    loop {
        spin::yield_now();
        let now = clock::monotonic_ns();
        let has_worked = now - before > WORKED_NS;
        if ready() {
            thread::note_peer(has_worked);
            return true;
        }
        if has_worked && renewals < RENEWALS_MAX {
            renewals += 1;
            began = now;
        }
        if now - began > SPIN_NS || give_up() {
            return false;
        }
        for _ in 0..if is_near { 0 } else { LOOKS_PER_YIELD } {
            spin::pause();
            if ready() {
                thread::note_peer(false);
                return true;
            }
        }
        before = clock::monotonic_ns();
    }
}

/// Waits until there may be something to read, or room to write when `for_room`.
pub fn wait(fd: i32, socket: &Socket, stream: &Stream, for_room: bool) -> Wake {
    match spin_first(socket, stream, for_room) {
        Some(wake) => wake,
        None => sleep(fd, socket, stream, for_room),
    }
}

/// The spin before a sleep; `None` when the time has come to sleep.
pub fn spin_first(socket: &Socket, stream: &Stream, for_room: bool) -> Option<Wake> {
    let interrupts = Interrupts::now();
    if spin(|| is_changed(socket, stream, for_room), || interrupts.hard_since()) {
        return Some(Wake::Look);
    }
    interrupts.hard_since().then_some(Wake::Interrupted)
}

fn sleep(fd: i32, socket: &Socket, stream: &Stream, for_room: bool) -> Wake {
    report::count(Counter::Sleeps);
    socket.arm(stream, for_room);
    let seen = socket.wakes.load(Acquire);
    let is_first = socket.sleepers.fetch_add(1, AcqRel) == 0;
    let wake = match is_changed(socket, stream, for_room) {
        true => Wake::Look,
        false if is_first => lead(fd, socket, stream, for_room),
        false => follow(socket, seen).unwrap_or_else(|| lead(fd, socket, stream, for_room)),
    };
    awake(fd, socket, stream, for_room);
    wake
}

/// First half of a sleep for bytes whose recv(2) with MSG_PEEK the caller makes itself, without a
/// frame of ours on the stack, so that the thread can be cancelled in it. False when this thread
/// shall wait in another way; true obliges to `end_sleep`.
pub fn begin_sleep(fd: i32, socket: &Socket, stream: &Stream) -> bool {
    if socket.unclaimed.load(Acquire)
        || socket.sleepers.compare_exchange(0, 1, AcqRel, Relaxed).is_err()
    {
        return false;
    }
    socket.arm(stream, false);
    shadow::drain(fd, socket, &stream.incoming);
    if is_changed(socket, stream, false) {
        awake(fd, socket, stream, false);
        return false;
    }
    report::count(Counter::Sleeps);
    true
}

/// Second half, with recv's answer.
pub fn end_sleep(fd: i32, socket: &Socket, stream: &Stream, answer: Result<usize, Errno>) -> Wake {
    let wake = slept(socket, answer);
    awake(fd, socket, stream, false);
    wake
}

/// This thread relies on bells no more; others that sleep beside it look again, since the bell
/// that woke this one may have been theirs.
fn awake(fd: i32, socket: &Socket, stream: &Stream, for_room: bool) {
    socket.disarm(stream, for_room);
    shadow::drain(fd, socket, &stream.incoming);
    check_shadow(fd, socket, stream);
    let before = socket.sleepers.fetch_update(AcqRel, Acquire, |count| count.checked_sub(1));
    socket.wakes.fetch_add(1, Release);
    if before.is_ok_and(|before| before > 1) {
        futex::wake(&socket.wakes, u32::MAX);
    }
}

/// Bytes on the shadow that nobody announced would end every later sleep at once: from a peer that
/// claimed the stream they end the connection.
pub fn check_shadow(fd: i32, socket: &Socket, stream: &Stream) {
    if !socket.unclaimed.load(Acquire)
        && !socket.is_native()
        && shadow::has_stray_bytes(fd, socket, &stream.incoming)
    {
        demote::broken(fd, socket, ());
    }
}

/// The stream is another one, or gone, since the sleep began: only the count is put right.
pub fn forget_sleep(socket: &Socket) {
    let _ = socket.sleepers.fetch_update(AcqRel, Acquire, |count| count.checked_sub(1));
}

fn is_changed(socket: &Socket, stream: &Stream, for_room: bool) -> bool {
    let flags = stream.incoming.flags();
    let lane_changed = match for_room {
        // A peer that half-closed still reads: its FIN is nothing to a writer.
        true => {
            flags & (RESET | SWITCHED) != 0
                || stream.outgoing.room().is_ok_and(|room| is_worth_waking(stream, room))
                || stream.outgoing.is_native_wanted()
        }
        false => {
            flags & (FIN | RESET | SWITCHED) != 0
                || (stream.incoming.unread().is_ok_and(|unread| unread > 0) && !socket.is_frozen())
        }
    };
    lane_changed || socket.shadow_ended.load(Relaxed) || socket.is_native()
}

/// Never more than the mark at which the reader rings: in a small ring the last bell would have
/// been rung before this writer said that it sleeps.
fn is_worth_waking(stream: &Stream, room: u64) -> bool {
    room >= ROOM_WORTH_WAKING || stream.outgoing.is_roomy(room)
}

/// Sleeps beside another sleeper of the same connection; `None` when nothing came of that for a
/// while: the other may have been cancelled, so this thread sleeps on the shadow itself.
fn follow(socket: &Socket, seen: u32) -> Option<Wake> {
    match futex::wait(&socket.wakes, seen, Some(FOLLOWER_LIMIT)) {
        Ok(futex::Wait::Interrupted) => Some(Wake::Interrupted),
        Ok(futex::Wait::TimedOut) => None,
        _ => Some(Wake::Look),
    }
}

/// Sleeps on the shadow.
fn lead(fd: i32, socket: &Socket, stream: &Stream, for_room: bool) -> Wake {
    shadow::drain(fd, socket, &stream.incoming);
    match is_changed(socket, stream, for_room) {
        true => Wake::Look,
        false if for_room => sleep_for_room(fd, socket),
        false if socket.unclaimed.load(Acquire) => sleep_on_offer(fd, socket, stream),
        false => sleep_for_bytes(fd, socket),
    }
}

/// recv(2) does what a native read would do, except that the byte stays where it is.
fn sleep_for_bytes(fd: i32, socket: &Socket) -> Wake {
    slept(socket, call::recv(fd, &mut [0], libc::MSG_PEEK))
}

fn slept(socket: &Socket, answer: Result<usize, Errno>) -> Wake {
    match answer {
        Ok(0) => {
            socket.shadow_ended.store(true, Release);
            Wake::Look
        }
        Ok(_) => Wake::Look,
        Err(Errno(libc::EINTR)) => Wake::Interrupted,
        Err(Errno(libc::EAGAIN)) => Wake::TimedOut,
        Err(errno) => {
            shadow::note_error(socket, errno);
            Wake::Look
        }
    }
}

fn sleep_for_room(fd: i32, socket: &Socket) -> Wake {
    let events = libc::POLLIN | libc::POLLRDHUP;
    let mut fds = [libc::pollfd { fd, events, revents: 0 }];
    let limit = call::socket_timeout(fd, libc::SO_SNDTIMEO);
    let interrupts = Interrupts::now();
    match call::ppoll(&mut fds, limit, None) {
        Ok(0) => Wake::TimedOut,
        Ok(_) => {
            shadow::learn(fd, socket, fds[0].revents as u32);
            Wake::Look
        }
        Err(_) if interrupts.hard_since() => Wake::Interrupted,
        Err(_) => Wake::Look,
    }
}

/// Sleeps until the offer is claimed and answered, or has to be taken back.
fn sleep_on_offer(fd: i32, socket: &Socket, stream: &Stream) -> Wake {
    let Some(left_ns) = connect::offer_left_ns(socket, stream) else { return Wake::Look };
    let events = libc::POLLIN | libc::POLLRDHUP;
    let mut fds = [libc::pollfd { fd, events, revents: 0 }];
    let interrupts = Interrupts::now();
    let timeout = call::socket_timeout(fd, libc::SO_RCVTIMEO);
    let limit = timeout.map_or(left_ns, |timeout| timeout.min(left_ns));
    match call::ppoll(&mut fds, Some(limit), None) {
        Ok(0) if limit < left_ns => Wake::TimedOut,
        Ok(_) => {
            shadow::learn(fd, socket, fds[0].revents as u32);
            Wake::Look
        }
        Err(_) if interrupts.hard_since() => Wake::Interrupted,
        Err(_) => Wake::Look,
    }
}
