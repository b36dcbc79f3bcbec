//! How a thread waits for its peer: a short look where that pays (`waiting`), then sleep in the kernel.
//!
//! The sleeper says so in the lane, looks once more, and sleeps *on the shadow*, where the bell, the
//! peer's end and a reset come. A read that nothing else may end sleeps in recv(2) with MSG_PEEK and no
//! frame of ours, so that its thread can be cancelled there; all others sleep in `asleep`, with a clock
//! where one is needed. What ends a call for good, its timeout and handlers, is counted from where the
//! call began (`blocked`). Of several threads asleep on one connection the first sleeps on the shadow,
//! the others on a word that the first bumps when it wakes, for a while; then beside it.

mod asleep;
mod blocked;
mod place;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heliostat_abi::session::report::Counter;
use heliostat_abi::stream::channel::direction::{FIN, RESET, SWITCHED};
use heliostat_base::futex;
use heliostat_base::sys::Errno;

use super::shadow::sleepers::{self, Place};
use super::socket::{Connection, Sleeper, Socket, Stream};
use super::transfer::PIECE_BYTES;
use super::{commit, early, end, shadow, switch};
use crate::thread::{Began, Critical};
use crate::{report, waiting};

pub use asleep::sit_out;
pub use blocked::Blocked;
pub use place::{get_up, lie_down};

/// Room that ends a writer's wait while it spins; one that sleeps is woken when a third is free.
const ROOM_WORTH_WAKING: u64 = 2 * PIECE_BYTES as u64;

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

/// Waits until there may be something to read, or room to write.
pub fn wait(socket: &Socket, stream: &Stream, blocked: &Blocked) -> Wake {
    let spun = spin_first(socket, stream, blocked);
    spun.unwrap_or_else(|| sleep(socket, stream, blocked))
}

/// The spin before a sleep; `None` when the time has come to sleep.
pub fn spin_first(socket: &Socket, stream: &Stream, blocked: &Blocked) -> Option<Wake> {
    let habit = socket.habit(blocked.for_room);
    let connection = Connection::new(blocked.fd, socket, stream);
    let is_ready = || is_changed(connection, blocked.for_room);
    if waiting::look(habit, is_ready, || blocked.is_interrupted()) {
        return Some(Wake::Look);
    }
    blocked.is_interrupted().then_some(Wake::Interrupted)
}

/// Sleeps, with frames of ours on the stack.
pub fn sleep(socket: &Socket, stream: &Stream, blocked: &Blocked) -> Wake {
    let connection = Connection::new(blocked.fd, socket, stream);
    report::count(Counter::Sleeps);
    arm(socket, stream, blocked.for_room);
    let seen = socket.wakes.load(Acquire);
    socket.sleepers.fetch_add(1, AcqRel);
    let (wake, place) = sleep_somewhere(connection, seen, blocked);
    awake(connection, blocked.for_room, place);
    unless_interrupted(wake, blocked, || is_changed(connection, blocked.for_room))
}

/// On the shadow, or beside a thread that sleeps there; why it ended, and this thread's place on the shadow.
fn sleep_somewhere(
    connection: Connection<'_>,
    seen: u32,
    blocked: &Blocked,
) -> (Wake, Option<Place>) {
    if is_changed(connection, blocked.for_room) {
        return (Wake::Look, None);
    }
    // No bell tells of room on the shadow, nor any thread that waits for bytes.
    if blocked.for_room && connection.socket.is_early() {
        let hears = early::room_events(connection).0 & libc::POLLIN != 0;
        let place = hears.then(|| lie_down(connection, Sleeper::Call));
        return (asleep::lead(connection, blocked), place);
    }
    let mut place = place::lie_down_first(connection, Sleeper::Call);
    if place.is_none() {
        if let Some(wake) = asleep::follow(connection.socket, seen, blocked) {
            return (wake, None);
        }
        place = Some(lie_down(connection, Sleeper::Call));
    }
    (asleep::lead(connection, blocked), place)
}

/// A sleep that a bell ended beside a handler is an interrupted one, if the bell was for nothing: the
/// kernel's own sleep has no bells, and the program would sleep on with its signal untold.
fn unless_interrupted(wake: Wake, blocked: &Blocked, is_changed: impl FnOnce() -> bool) -> Wake {
    match wake {
        Wake::Look if blocked.is_interrupted() && !is_changed() => Wake::Interrupted,
        wake => wake,
    }
}

fn arm(socket: &Socket, stream: &Stream, for_room: bool) {
    let _critical = Critical::enter();
    socket.arm(stream, for_room);
}

/// First half of a sleep for bytes whose recv(2) with MSG_PEEK the caller makes itself, without a
/// frame of ours on the stack. False when this thread shall wait in another way; true obliges to
/// `end_sleep`.
pub fn begin_sleep(socket: &Socket, stream: &Stream, blocked: &Blocked) -> bool {
    let connection = Connection::new(blocked.fd, socket, stream);
    let _critical = Critical::enter();
    // What a clock may end is slept in with a frame: recv(2) knows only the socket's whole timeout.
    if socket.siblings_pause(stream).is_some() || blocked.has_less_than_its_timeout() {
        return false;
    }
    let Some(place) = place::lie_down_first(connection, Sleeper::Peeker) else { return false };
    socket.arm(stream, false);
    socket.sleepers.fetch_add(1, AcqRel);
    // No bell comes for what was held back before this thread said that it sleeps.
    let is_held = !socket.is_early() && stream.incoming.held() > 0;
    if is_changed(connection, false) || is_held {
        awake(connection, false, Some(place));
        return false;
    }
    report::count(Counter::Sleeps);
    blocked.began.sleep(waiting::sleeps());
    true
}

/// Second half, with recv's answer.
pub fn end_sleep(connection: Connection<'_>, answer: Result<usize, Errno>) -> Wake {
    let Connection { fd, socket, .. } = connection;
    waiting::woke(socket.habit(false));
    let wake = asleep::slept(socket, answer);
    awake(connection, false, Some(sleepers::peeker(socket)));
    let blocked = Blocked::reading(fd, Began::of_sleep());
    unless_interrupted(wake, &blocked, || is_changed(connection, false))
}

/// Waits beside a flush, and publishes when that has ended: until something may have changed, the call's
/// time is over, or all is flushed.
#[cold]
pub fn outlast_flush(socket: &Socket, stream: &Stream, blocked: &Blocked) {
    let connection = Connection::new(blocked.fd, socket, stream);
    let look = || is_changed(connection, false) || blocked.is_interrupted() || blocked.is_over();
    let sleep = |rings| {
        arm(socket, stream, false);
        socket.sleepers.fetch_add(1, AcqRel);
        let place = lie_down(connection, Sleeper::Call);
        if !is_changed(connection, false) {
            asleep::nap_beside(socket, blocked, rings);
        }
        awake(connection, false, Some(place));
    };
    commit::outlast(None, look, sleep);
}

/// This thread relies on bells no more, and leaves its place on the shadow if it had one; others that
/// rely on it look again, since the bell that woke this one may have been theirs.
fn awake(connection: Connection<'_>, for_room: bool, place: Option<Place>) {
    let Connection { socket, stream, .. } = connection;
    let _critical = Critical::enter();
    socket.disarm(stream, for_room);
    // A sleep that a bell has ended needs no other cause; what lies there beside it will end the
    // next one.
    let had_bell = place.is_none_or(|place| get_up(connection, place));
    if !had_bell {
        check_shadow(connection);
    }
    let before = socket.sleepers.fetch_update(AcqRel, Acquire, |count| count.checked_sub(1));
    socket.wakes.fetch_add(1, Release);
    if before.is_ok_and(|before| before > 1) {
        futex::wake(&socket.wakes, u32::MAX);
    }
}

/// Bytes on the shadow that nobody announced would end every later sleep at once: from a peer that
/// claimed the stream they end the connection.
pub fn check_shadow(connection: Connection<'_>) {
    let Connection { fd, socket, stream } = connection;
    // What is early may be payload, and is looked at by who reads it.
    if !socket.is_early()
        && !socket.is_native()
        && shadow::has_stray_bytes(fd, socket, &stream.incoming)
    {
        end::broken(connection, ());
    }
}

/// Counts a thread that is about to sleep in the kernel for a connection of which nobody knows yet what
/// it becomes; `forget_sleep` ends that. False when it is decided by now.
pub fn count_undecided(socket: &Socket) -> bool {
    let _critical = Critical::enter();
    let half = socket.receiver.lock();
    let is_undecided = half.undecided.is_some();
    if is_undecided {
        socket.sleepers.fetch_add(1, AcqRel);
    }
    is_undecided
}

/// The stream is another one, or gone, since the sleep began: only the counts are put right.
pub fn forget_sleep(socket: &Socket) {
    sleepers::forget_peeker(socket);
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

fn is_changed(connection: Connection<'_>, for_room: bool) -> bool {
    let Connection { fd, socket, stream } = connection;
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
                || switch::can_follow(connection)
                || (stream.incoming.unread().is_ok_and(|unread| unread > 0) && !socket.is_frozen())
        }
    };
    lane_changed
        || socket.shadow_ended.load(Relaxed)
        || socket.is_native()
        || (!for_room && socket.read_shut.load(Relaxed))
        || (!for_room && socket.is_early() && early::has_come(connection))
}

/// Never more than the mark at which the reader rings: in a small ring the last bell would have
/// been rung before this writer said that it sleeps.
fn is_worth_waking(stream: &Stream, room: u64) -> bool {
    room >= ROOM_WORTH_WAKING || stream.outgoing.is_roomy(room)
}
