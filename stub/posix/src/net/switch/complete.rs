//! Leaving at once and for good: the descriptor goes where no stub reads its ring.
//!
//! Nobody waits for a peer that is awake or asleep elsewhere. With nothing unread in the ring and
//! no bell under way this end is the kernel's as soon as it has said so (`D3`): whatever the peer
//! writes after that it takes back onto the shadow before its call returns. Only unread bytes need
//! the peer, or a relay in its place.
//!
//! ```text
//! freeze: wish --> switch the own direction, a bell for a sleeper
//!     ring empty, no bell under way ------------------------------> native, nobody waited
//!     taken back within a few ms ---------------------------------> native
//!     peer gone: the shadow ends alike --> native;  else its remains, by a twin
//!     peer silent -------------------------------------------------> a relay, by a twin
//! ```

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use heliostat_abi::code::Native;
use heliostat_abi::limits::{DEMOTE_AWAKE_WAIT_NS, DEMOTE_DEADLINE_NS, DEMOTE_WAIT_NS};
use heliostat_abi::stream::channel::direction::{RESET, SWITCHED, TAKEN_BACK};
use heliostat_base::{call, clock, spin};

use super::{finish, switch_outgoing, Bell};
use crate::net::early;
use crate::net::patience::Account;
use crate::net::shadow::sleepers::{self, Bells};
use crate::net::side_lock::{self, Half};
use crate::net::socket::{Connection, Socket, Stage, Stream};
use crate::net::{carried, end, relay, shadow};

/// Between two looks at a peer that has been woken.
const LOOK_PAUSE_NS: u64 = 100_000;
/// Others whom a bell has woken have so long to see it.
const OTHERS_NS: u64 = 1_000_000;

/// Both directions are on the shadow, or on another connection in its place, when this returns. The
/// caller holds the lock of leaving.
pub fn leave(connection: Connection<'_>, reason: Native) {
    let Connection { socket, stream, .. } = connection;
    freeze(socket, stream);
    switch_outgoing(connection, Bell::ForSleepers);
    // A peer that was rung for needs its core; one that is awake looks soon, or not at all.
    let wait_ns = match stream.outgoing.bells_pending() {
        0 => DEMOTE_AWAKE_WAIT_NS,
        _ => DEMOTE_WAIT_NS,
    };
    match await_through(connection, Wait::AtMost(wait_ns)) {
        true => settle(connection, reason),
        false => leave_alone(connection, reason),
    }
}

/// How long the peer is waited for.
enum Wait {
    /// As long as its user has not been waited for in vain lately.
    AtMost(u64),
    /// Nothing else is left to do.
    ToTheLast(u64),
}

/// Stops this end's reading and asks the writer to take the unread bytes back. Under the
/// receiver's lock, so that no read is under way while the writer looks at the position.
fn freeze(socket: &Socket, stream: &Stream) {
    let receiver = socket.receiver.lock();
    if receiver.stream.is_none() {
        return;
    }
    let _shared = side_lock::enter(socket, stream, Half::Reading);
    socket.frozen.store(true, Release);
    stream.incoming.want_native();
    // Who sleeps for room needs the peer's bell. Who is about to sees the wish, and does not.
    let needs_bell = stream.outgoing.is_writer_asleep();
    // Another process of this end would take what is left of the prefix for a bell.
    let is_prefix_shared = socket.is_shared() && socket.reads_shadow();
    if !needs_bell && !is_prefix_shared {
        stream.incoming.want_silence();
    }
}

/// Takes bells off the shadow, from whoever else sleeps there after a while since `began`: they have been woken.
fn take_bells(connection: Connection<'_>, began: u64) {
    let Connection { fd, socket, stream } = connection;
    while sleepers::drain_unslept(connection) == Bells::Left {
        if clock::monotonic_ns() > began + OTHERS_NS {
            return shadow::drain(fd, socket, &stream.incoming);
        }
        spin::yield_now();
    }
}

/// Waits until this end is through with the ring, or the peer is gone, or the time is over.
fn await_through(connection: Connection<'_>, wait: Wait) -> bool {
    let Connection { fd, socket, stream } = connection;
    let account = Account::of_peer(stream);
    let wait_ns = match wait {
        Wait::AtMost(_) if !account.allows_wait() => 0,
        Wait::AtMost(ns) | Wait::ToTheLast(ns) => ns,
    };
    let began = clock::monotonic_ns();
    let ends = began + wait_ns;
    let mut turns = spin::Spin::new();
    let mut has_waited = false;
    loop {
        if !socket.reads_shadow() || early::settles(connection) {
            take_bells(connection, began);
        }
        if is_through(stream) {
            if has_waited {
                account.learn(false);
            }
            return true;
        }
        shadow::probe_if_stale(fd, socket);
        if has_left(socket, stream) {
            return false;
        }
        if clock::monotonic_ns() >= ends {
            if has_waited {
                account.learn(true);
            }
            return false;
        }
        has_waited = true;
        if turns.turn() {
            let _ = call::ppoll(&mut [], Some(LOOK_PAUSE_NS), None);
        }
    }
}

/// True when all that is unread, and all that will come, lies on the shadow, and nothing else does.
fn is_through(stream: &Stream) -> bool {
    let lane = &stream.incoming;
    let flags = lane.flags(); // L3
    let has_switched = flags & SWITCHED != 0;
    if lane.bells_pending() != 0 {
        return false;
    }
    if has_switched && flags & TAKEN_BACK != 0 {
        return true;
    }
    // An end that the peer has only announced is not on its shadow yet.
    let is_heard = lane.is_silence_wanted() && flags == 0; // D3
    (has_switched || is_heard) && lane.held() == 0 && lane.unread() == Ok(0)
}

/// What a loop has left of a connection that has come back is no end: the connection goes on behind it.
fn has_left(socket: &Socket, stream: &Stream) -> bool {
    if carried::has_come_back(socket) {
        return false;
    }
    stream.slot.peer_left(stream.side) || socket.shadow_ended.load(Relaxed)
}

/// All is the kernel's.
fn settle(connection: Connection<'_>, reason: Native) {
    let Connection { fd, socket, .. } = connection;
    let index = connection.index();
    socket.receiver.lock().leave();
    socket.set_stage(Stage::Settled);
    finish(fd, index, reason);
}

/// The peer does not help. If it has left, a fresh connection that holds what it sent, and then
/// ends, takes the descriptor's place; if it only does not answer, a relay does.
fn leave_alone(connection: Connection<'_>, reason: Native) {
    let Connection { socket, stream, .. } = connection;
    let is_done = match has_left(socket, stream) {
        true => stand_in_for_gone(connection),
        false => {
            let has_come_round = !stream.incoming.retract_want();
            let again = || Wait::AtMost(DEMOTE_AWAKE_WAIT_NS);
            (has_come_round && await_through(connection, again()))
                || put_relay(connection)
                || await_through(connection, Wait::ToTheLast(DEMOTE_DEADLINE_NS))
        }
    };
    match is_done {
        true => settle(connection, reason),
        false => reset(connection, Native::Corrupt),
    }
}

/// The slot is the relay's from then on, until it ends.
fn put_relay(connection: Connection<'_>) -> bool {
    let is_put = relay::start(connection, Vec::new());
    if is_put {
        connection.socket.receiver.lock().stream = None;
    }
    is_put
}

fn stand_in_for_gone(connection: Connection<'_>) -> bool {
    let Connection { fd, socket, stream } = connection;
    let index = connection.index();
    if ends_alike(connection) {
        return true;
    }
    let Some(bytes) = remains(connection) else { return false };
    end::settle(socket, stream);
    let is_reset = !end::is_in_order(socket, stream.incoming.flags());
    relay::start_remains(fd, index, &bytes, is_reset)
}

/// True when the shadow ends as the stream does, with nothing in front of that end.
fn ends_alike(connection: Connection<'_>) -> bool {
    let Connection { fd, socket, stream } = connection;
    shadow::probe(fd, socket);
    let has_ended = socket.shadow_ended.load(Acquire);
    if !has_ended || socket.reads_shadow() || socket.shadow_error.load(Acquire) != 0 {
        return false;
    }
    end::settle(socket, stream);
    let lanes = [&stream.incoming, &stream.outgoing];
    let is_quiet = lanes.iter().all(|lane| lane.bells_pending() == 0);
    let is_in_order = end::is_in_order(socket, stream.incoming.flags());
    is_quiet && is_in_order && !socket.broken.load(Acquire) && stream.incoming.unread() == Ok(0)
}

/// All that a peer that is gone has left unread.
fn remains(connection: Connection<'_>) -> Option<Vec<u8>> {
    let Connection { stream, .. } = connection;
    let mut bytes = early::remains(connection)?;
    stream.incoming.release_held();
    let first = bytes.len();
    bytes.resize(first + stream.incoming.unread().ok()? as usize, 0);
    stream.incoming.read(&mut [std::io::IoSliceMut::new(&mut bytes[first..])], false).ok()?;
    Some(bytes)
}

/// Gives the connection up: both ends see an error, not a clean end of a cut stream.
pub fn reset(connection: Connection<'_>, reason: Native) {
    let Connection { fd, socket, stream } = connection;
    let index = connection.index();
    stream.outgoing.raise(RESET);
    socket.receiver.lock().leave();
    socket.sender.lock().stream = None;
    call::reset(fd);
    finish(fd, index, reason);
}
