//! What a read does that finds nothing.

use heliostat_base::clock;
use heliostat_base::process::is_single_threaded;
use heliostat_base::sys::Errno;

use super::{is_impatient, TURNS_MAX};
use crate::flush;
use crate::net::socket::{self, Connection, Socket, Stream};
use crate::net::wait::{self, Blocked, Wake};
use crate::net::{commit, listen, shadow};

/// What it came to.
pub(super) enum Pause {
    Again,
    Sleep,
    Stop(i32),
}

/// A connection of which nobody knows yet what it becomes: its sleeper is counted. False when a handler
/// has run within the call, of which the kernel does not know.
#[cold]
pub(super) fn sleep_undecided(socket: &Socket, blocked: &Blocked) -> bool {
    if flush::is_busy() {
        // Nobody else publishes what is held back, for which this call's peer may wait.
        commit::settle();
    }
    let sleeps = !blocked.is_interrupted();
    match sleeps {
        true => blocked.began.sleep(clock::monotonic_ns()),
        false => wait::forget_sleep(socket),
    }
    sleeps
}

/// Nothing to read now: waits, or says why not. The call has had so many turns.
pub(super) fn pause(
    index: u32,
    stream: &Stream,
    flags: i32,
    turns: u32,
    blocked: &Blocked,
) -> Pause {
    let (fd, socket) = (blocked.fd, socket::at(index));
    listen::renew_if_due();
    if flush::is_busy() {
        // Somebody may wait for what is held back, and this call for him.
        match is_impatient(socket, flags) {
            true => commit::look_in(),
            false if is_single_threaded() => wait::outlast_flush(socket, stream, blocked),
            false => commit::settle(),
        }
    }
    if is_impatient(socket, flags) {
        let is_news = shadow::doubt(fd, socket, stream) || shadow::probe_if_stale(fd, socket);
        return match is_news {
            true => Pause::Again,
            false => Pause::Stop(libc::EAGAIN),
        };
    }
    // What lies in the ring is not for this process: no bell tells when that changes.
    if turns > TURNS_MAX && socket.is_frozen_by_other(stream) {
        return told(wait::sit_out(socket, blocked));
    }
    if let Some(wake) = wait::spin_first(socket, stream, blocked) {
        return told(wake);
    }
    let may_leave = flags & libc::MSG_WAITALL == 0;
    if !may_leave || !wait::begin_sleep(socket, stream, blocked) {
        return told(wait::sleep(socket, stream, blocked));
    }
    if !blocked.is_interrupted() {
        return Pause::Sleep;
    }
    // A handler ran within this call: the kernel, which would sleep now, does not know of it.
    told(wait::end_sleep(Connection::new(fd, socket, stream), Err(Errno(libc::EINTR))))
}

fn told(wake: Wake) -> Pause {
    match wake {
        Wake::Look => Pause::Again,
        Wake::Interrupted => Pause::Stop(libc::EINTR),
        Wake::TimedOut => Pause::Stop(libc::EAGAIN),
    }
}
