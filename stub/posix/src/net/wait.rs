//! How a thread waits for its peer: a short look where that pays (`waiting`), then sleep in the kernel.
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
use heliostat_base::{call, clock, futex};

use super::socket::{Socket, Stream};
use super::transfer::PIECE_BYTES;
use super::{early, end, shadow, switch};
use crate::thread::{Critical, Interrupts};
use crate::{report, waiting};

/// Room that ends a writer's wait while it spins; one that sleeps is woken when a third is free.
const ROOM_WORTH_WAKING: u64 = 2 * PIECE_BYTES as u64;
/// A second sleeper relies on the first for this long.
const FOLLOWER_LIMIT: Duration = Duration::from_millis(20);
/// Where processes share an end each looks by itself after this long: a bell, or the word that asks for
/// one, may have been taken by a sibling that has gone on, and no process can pass it on.
const SIBLING_PAUSE_NS: u64 = 100_000_000;

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

/// Waits until there may be something to read, or room to write when `for_room`.
pub fn wait(fd: i32, socket: &Socket, stream: &Stream, for_room: bool) -> Wake {
    let interrupts = Interrupts::now();
    match spin_first(fd, socket, stream, for_room) {
        Some(wake) => wake,
        None => {
            let wake = sleep(fd, socket, stream, for_room);
            unless_interrupted(wake, interrupts, || is_changed(fd, socket, stream, for_room))
        }
    }
}

/// A sleep that a bell ended beside a handler is an interrupted one, if the bell was for nothing: the
/// kernel's own sleep has no bells, and the program would sleep on with its signal untold.
fn unless_interrupted(wake: Wake, since: Interrupts, is_changed: impl FnOnce() -> bool) -> Wake {
    match wake {
        Wake::Look if since.hard_since() && !is_changed() => Wake::Interrupted,
        wake => wake,
    }
}

/// The spin before a sleep; `None` when the time has come to sleep.
pub fn spin_first(fd: i32, socket: &Socket, stream: &Stream, for_room: bool) -> Option<Wake> {
    let interrupts = Interrupts::now();
    let habit = socket.habit(for_room);
    let is_ready = || is_changed(fd, socket, stream, for_room);
    if waiting::look(habit, is_ready, || interrupts.hard_since()) {
        return Some(Wake::Look);
    }
    interrupts.hard_since().then_some(Wake::Interrupted)
}

fn sleep(fd: i32, socket: &Socket, stream: &Stream, for_room: bool) -> Wake {
    report::count(Counter::Sleeps);
    arm(socket, stream, for_room);
    let seen = socket.wakes.load(Acquire);
    let is_first = socket.sleepers.fetch_add(1, AcqRel) == 0;
    let is_first = is_first || (for_room && socket.is_early());
    let wake = match is_changed(fd, socket, stream, for_room) {
        true => Wake::Look,
        false if is_first => lead(fd, socket, stream, for_room),
        false => follow(socket, seen).unwrap_or_else(|| lead(fd, socket, stream, for_room)),
    };
    awake(fd, socket, stream, for_room);
    wake
}

fn arm(socket: &Socket, stream: &Stream, for_room: bool) {
    let _critical = Critical::enter();
    socket.arm(stream, for_room);
}

/// First half of a sleep for bytes whose recv(2) with MSG_PEEK the caller makes itself, without a
/// frame of ours on the stack, so that the thread can be cancelled in it. False when this thread
/// shall wait in another way; true obliges to `end_sleep`. The call had been interrupted so often
/// when it `began`.
pub fn begin_sleep(fd: i32, socket: &Socket, stream: &Stream, began: Interrupts) -> bool {
    let _critical = Critical::enter();
    // Beside siblings the clock ends the sleep, and so it is made with a frame of ours.
    if siblings_pause(socket).is_some()
        || socket.sleepers.compare_exchange(0, 1, AcqRel, Relaxed).is_err()
    {
        return false;
    }
    socket.arm(stream, false);
    shadow::drain(fd, socket, &stream.incoming);
    // A sleep that the clock may end is made with a frame of ours.
    let is_held = !socket.is_early() && stream.incoming.held() > 0;
    if is_changed(fd, socket, stream, false) || is_held {
        awake(fd, socket, stream, false);
        return false;
    }
    report::count(Counter::Sleeps);
    waiting::sleeps();
    began.sleep();
    true
}

/// Second half, with recv's answer.
pub fn end_sleep(fd: i32, socket: &Socket, stream: &Stream, answer: Result<usize, Errno>) -> Wake {
    waiting::woke(socket.habit(false));
    let wake = slept(socket, answer);
    awake(fd, socket, stream, false);
    unless_interrupted(wake, Interrupts::of_sleep(), || is_changed(fd, socket, stream, false))
}

/// This thread relies on bells no more; others that sleep beside it look again, since the bell
/// that woke this one may have been theirs.
fn awake(fd: i32, socket: &Socket, stream: &Stream, for_room: bool) {
    let _critical = Critical::enter();
    socket.disarm(stream, for_room);
    // A sleep that a bell has ended needs no other cause; what lies there beside it will end the
    // next one.
    if !shadow::drain(fd, socket, &stream.incoming) {
        check_shadow(fd, socket, stream);
    }
    let before = socket.sleepers.fetch_update(AcqRel, Acquire, |count| count.checked_sub(1));
    socket.wakes.fetch_add(1, Release);
    if before.is_ok_and(|before| before > 1) {
        futex::wake(&socket.wakes, u32::MAX);
    }
}

/// Bytes on the shadow that nobody announced would end every later sleep at once: from a peer that
/// claimed the stream they end the connection.
pub fn check_shadow(fd: i32, socket: &Socket, stream: &Stream) {
    // What is early may be payload, and is looked at by who reads it.
    if !socket.is_early()
        && !socket.is_native()
        && shadow::has_stray_bytes(fd, socket, &stream.incoming)
    {
        end::broken(fd, socket, stream, ());
    }
}

/// The stream is another one, or gone, since the sleep began: only the count is put right.
pub fn forget_sleep(socket: &Socket) {
    let _ = socket.sleepers.fetch_update(AcqRel, Acquire, |count| count.checked_sub(1));
}

/// The descriptor is another file since the sleep began; another one may refer to the connection
/// still, of which this thread is no sleeper any more.
pub fn give_up_sleep(socket: &Socket) {
    let _critical = Critical::enter();
    if let Some(stream) = socket.stream() {
        socket.disarm(&stream, false);
    }
    forget_sleep(socket);
}

fn is_changed(fd: i32, socket: &Socket, stream: &Stream, for_room: bool) -> bool {
    if for_room && early::sends_on_shadow(socket) {
        return early::has_room(fd);
    }
    let flags = stream.incoming.flags();
    let lane_changed = match for_room {
        // A peer that half-closed still reads: its FIN is nothing to a writer.
        true => {
            flags & (RESET | SWITCHED) != 0
                || stream.outgoing.room().is_ok_and(|room| is_worth_waking(stream, room))
                || stream.outgoing.is_native_wanted()
                || stream.incoming.is_reader_leaving()
        }
        // What is in the ring comes behind the shadow's bytes, which are looked at below.
        false if socket.reads_shadow() => false,
        false => {
            flags & (FIN | RESET) != 0
                || switch::can_follow(fd, socket, stream)
                || (stream.incoming.unread().is_ok_and(|unread| unread > 0) && !socket.is_frozen())
        }
    };
    lane_changed
        || socket.shadow_ended.load(Relaxed)
        || socket.is_native()
        || (!for_room && socket.read_shut.load(Relaxed))
        || (!for_room && socket.is_early() && early::has_come(fd, socket, stream))
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
    match is_changed(fd, socket, stream, for_room) {
        true => Wake::Look,
        false => {
            waiting::sleeps();
            let wake = match for_room {
                true => sleep_for_room(fd, socket, stream),
                false => sleep_for_bytes(fd, socket, stream),
            };
            waiting::woke(socket.habit(for_room));
            wake
        }
    }
}

/// recv(2) does what a native read would do, except that the byte stays where it is. What the writer
/// holds back is there when its time has come.
fn sleep_for_bytes(fd: i32, socket: &Socket, stream: &Stream) -> Wake {
    let held = if socket.is_early() { None } else { stream.incoming.held_for() };
    if let Some(held) = held {
        let limit = call::socket_timeout(fd, libc::SO_RCVTIMEO).filter(|limit| *limit < held);
        let nap = limit.unwrap_or(held);
        return match nap_on_shadow(fd, socket, libc::POLLIN | libc::POLLRDHUP, Some(nap)) {
            Wake::TimedOut if limit.is_none() => Wake::Look,
            wake => wake,
        };
    }
    match siblings_pause(socket) {
        Some(_) => sleep_beside_siblings(fd, socket, stream),
        None => slept(socket, call::recv(fd, &mut [0], libc::MSG_PEEK)),
    }
}

/// How long a sleep may last at once: for ever, unless other processes hold this end as well.
fn siblings_pause(socket: &Socket) -> Option<u64> {
    let is_shared = socket.shared.load(Relaxed) && !socket.is_early();
    is_shared.then_some(SIBLING_PAUSE_NS)
}

fn sleep_beside_siblings(fd: i32, socket: &Socket, stream: &Stream) -> Wake {
    let limit = call::socket_timeout(fd, libc::SO_RCVTIMEO);
    let ends = limit.map(|limit| clock::monotonic_ns() + limit);
    loop {
        let left = ends.map(|ends| ends.saturating_sub(clock::monotonic_ns()));
        let nap = left.map_or(SIBLING_PAUSE_NS, |left| left.min(SIBLING_PAUSE_NS));
        let wake = nap_on_shadow(fd, socket, libc::POLLIN | libc::POLLRDHUP, Some(nap));
        if wake != Wake::TimedOut || left == Some(0) {
            return wake;
        }
        if is_changed(fd, socket, stream, false) {
            return Wake::Look;
        }
    }
}

fn slept(socket: &Socket, answer: Result<usize, Errno>) -> Wake {
    match answer {
        Ok(0) if socket.stage().is_kernels() => Wake::Look,
        Ok(0) => {
            shadow::note_end(socket);
            Wake::Look
        }
        Ok(_) => Wake::Look,
        Err(Errno(libc::EINTR)) => Wake::Interrupted,
        Err(Errno(libc::EAGAIN)) => Wake::TimedOut,
        Err(errno) => {
            match socket.stage().is_kernels() {
                true => shadow::keep_kernels_error(socket, errno),
                false => shadow::note_error(socket, errno),
            }
            Wake::Look
        }
    }
}

/// One short sleep on the shadow, the `turn`-th of a call that must look by itself.
pub fn sit_out(fd: i32, socket: &Socket, turn: u32) -> Wake {
    let limit = call::socket_timeout(fd, libc::SO_RCVTIMEO);
    let passed = u64::from(turn) * early::BELL_PAUSE_NS;
    match nap_on_shadow(fd, socket, libc::POLLRDHUP, Some(early::BELL_PAUSE_NS)) {
        Wake::TimedOut if limit.is_none_or(|limit| passed < limit) => Wake::Look,
        wake => wake,
    }
}

fn sleep_for_room(fd: i32, socket: &Socket, stream: &Stream) -> Wake {
    let limit = call::socket_timeout(fd, libc::SO_SNDTIMEO);
    let ends = limit.map(|limit| clock::monotonic_ns() + limit);
    loop {
        let (events, pause) = early::room_events(fd, socket, stream);
        let pause = pause.or_else(|| siblings_pause(socket));
        let left = ends.map(|ends| ends.saturating_sub(clock::monotonic_ns()));
        let nap = pause.map(|pause| left.map_or(pause, |left| left.min(pause))).or(left);
        let wake = nap_on_shadow(fd, socket, events, nap);
        if wake != Wake::TimedOut || pause.is_none() || left == Some(0) {
            return wake;
        }
        if is_changed(fd, socket, stream, true) {
            return Wake::Look;
        }
    }
}

fn nap_on_shadow(fd: i32, socket: &Socket, events: i16, nap: Option<u64>) -> Wake {
    let mut fds = [libc::pollfd { fd, events, revents: 0 }];
    let interrupts = Interrupts::now();
    match call::ppoll(&mut fds, nap, None) {
        Ok(0) => Wake::TimedOut,
        Ok(_) => {
            shadow::learn(fd, socket, fds[0].revents as u32);
            Wake::Look
        }
        Err(_) if interrupts.hard_since() => Wake::Interrupted,
        Err(_) => Wake::Look,
    }
}
