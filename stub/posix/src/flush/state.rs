//! Flushes as the rest of the stub sees them: ask, look, wait, make one here.
//!
//! A ticket is the number of a flush (`order`); what the program lets out waits for the newest that was
//! issued before. The lock is held for no longer than a look, but where a file's first flush opens the
//! log, or all is flushed before a call that changes names: a flush that a thread makes itself runs
//! outside.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use heliostat_base::lock::{Guard, Lock};
use heliostat_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock, futex};

use super::files::{File, Files};
#[cfg(feature = "flush-faults")]
use super::flushes::faults;
use super::flushes::{Flight, Flushes, DONE, ENDS, FAILED_FROM, ISSUED, SLEEPERS};
use super::kept::Kept;
use super::sink::{self, FileSink};
use super::writing::{self, Begun};
use super::{changing, clear, detect, own, worth, BUSY, KEPT, UNTOLD};
use crate::thread::Critical;

/// A program that waits so soon after it has asked is one whose waits flush.
const SOON_NS: u64 = 1_000_000;
/// Another thread may have taken the end that this one sleeps for, so nobody sleeps longer at once.
const SLEEP: Duration = Duration::from_millis(2);

static STATE: Lock<Flushes> = Lock::new(Flushes::new());

/// The state, which no handler of this thread asks for meanwhile: it would wait for the thread itself.
struct Held {
    // Given back first.
    state: Guard<'static, Flushes>,
    _critical: Critical,
}

fn held() -> Held {
    let critical = Critical::enter();
    Held { state: STATE.lock(), _critical: critical }
}

impl Deref for Held {
    type Target = Flushes;

    fn deref(&self) -> &Flushes {
        &self.state
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Flushes {
        &mut self.state
    }
}

/// The newest ticket that was issued.
pub fn latest() -> u64 {
    ISSUED.load(Acquire)
}

/// All flushes up to this ticket have ended.
pub fn done() -> u64 {
    DONE.load(Acquire)
}

/// What waited for this ticket or a later one is let out no more.
pub fn failed_from() -> u64 {
    FAILED_FROM.load(Acquire)
}

/// Asks for a flush of a file that has this path; false when the next one has no room for it.
pub fn begin(file: File, path: &[u8]) -> bool {
    let mut state = held();
    if !state.ask(file, path) {
        return false;
    }
    (state.asked_at, state.is_unseen) = (clock::monotonic_ns(), true);
    if !state.waits_soon {
        state.start();
    }
    true
}

/// Empties the log, durably, and keeps it for no file: before a call that changes what it counts on.
pub fn forget_logged() {
    let mut state = held();
    state.forget_logged();
    state.reap();
}

/// Whether the log is kept for what the program has open as `fd`, and up to where it has its bytes.
pub fn kept(fd: i32) -> Option<u64> {
    held().log.kept.iter().find(|kept| kept.fd == fd).map(|kept| kept.logged)
}

/// Whether the log is kept for a file that the program has open by one of these numbers.
pub fn keeps_any(first: u32, last: u32) -> bool {
    let state = held();
    let found = state.log.kept.iter().any(|kept| (first..=last).contains(&(kept.fd as u32)));
    found
}

/// A write of this file begins at this place, which may not be its end. It is noted until the next call of its
/// thread, where there are others.
pub fn begin_write(identity: (u64, u64), at: u64, is_alone: bool) -> Begun {
    let mut state = held();
    let is_its = |kept: &Kept| kept.identity() == identity && at < kept.logged;
    let overwrites = state.log.kept.iter().any(is_its);
    if overwrites {
        return Begun::Overwrites;
    }
    match is_alone {
        true => Begun::Noted,
        false => state.log.writes.begin(identity, at),
    }
}

/// What this thread has begun to write is written.
#[inline]
pub fn end_writes() {
    let places = writing::take_noted();
    if places != 0 {
        held().log.writes.end(places);
    }
}

/// Whether the log is kept for this file.
pub fn keeps(identity: (u64, u64)) -> bool {
    let state = held();
    let found = state.log.kept.iter().any(|kept| kept.identity() == identity);
    found
}

/// The program has begun to wait, or asks whether there is something to do.
pub fn note_wait() {
    let mut state = held();
    if std::mem::take(&mut state.is_unseen) {
        state.waits_soon = clock::monotonic_ns().saturating_sub(state.asked_at) < SOON_NS;
    }
}

/// Takes note of what has ended.
pub fn progress() {
    held().reap();
}

/// Begins what is collected, unless one is under way.
pub fn start() {
    let mut state = held();
    state.reap();
    state.start();
}

/// True while all that is wanted is under way: nothing is left for `flush_here`.
pub fn is_flying() -> bool {
    let state = held();
    let is_left = state.flying.is_none() && !state.next.is_empty() || state.log.is_unpushed();
    !is_left
}

/// True when a flush of what `fd` has open has been asked for, and has not ended.
pub fn is_pending(fd: i32) -> bool {
    let state = held();
    let is_logged = state.order.is_logged() && state.log.kept.iter().any(|kept| kept.fd == fd);
    let is_flown = |flight: &Flight| flight.files.has(fd);
    is_logged || state.next.has(fd) || state.flying.as_ref().is_some_and(is_flown)
}

/// True when that is so, and no other file is to be flushed.
pub fn is_all_that_is_pending(fd: i32) -> bool {
    let state = held();
    let flying = state.flying.iter().flat_map(|flight| flight.files.iter());
    let files = state.next.iter().chain(flying).map(|file| (file.fd, file.identity));
    let is_logged = state.order.is_logged();
    let kept = state.log.kept.iter().filter(|_| is_logged);
    let mut all = files.chain(kept.map(|kept| (kept.fd, (kept.birth.device, kept.birth.inode))));
    let Some((_, identity)) = all.clone().find(|file| file.0 == fd) else { return false };
    all.all(|file| file.1 == identity)
}

/// Makes in this thread what is not under way: the log's append, or the next flush of files.
pub fn flush_here() {
    let mut state = held();
    if state.log.is_unpushed() {
        let log = state.log.handle();
        state.log.note_pushed();
        drop(state);
        // A log that has failed is seen by who reaps.
        log.into_iter().for_each(|log| _ = log.sync());
        return progress();
    }
    if state.flying.is_some() || state.next.is_empty() {
        return;
    }
    let files = state.take_off(true);
    drop(state);
    let answers = sink::flush_here(&files);
    #[cfg(feature = "flush-faults")]
    faults::sleep();
    let mut state = held();
    for (place, answer) in answers.into_iter().enumerate().take(files.iter().count()) {
        state.land(place, answer);
    }
    state.reap();
}

/// Sleeps until something that is under way has ended, or for a short while.
pub fn wait() {
    let seen = ENDS.load(Acquire);
    let mut state = held();
    state.reap();
    if state.order.is_empty() {
        return;
    }
    let is_here = state.flying.as_ref().is_some_and(|flight| flight.is_here);
    let rings = [state.sink.descriptor(), state.log.descriptor()];
    drop(state);
    if is_here || sleep_limit_ns().is_some() || rings == [None; 2] {
        SLEEPERS.fetch_add(1, AcqRel);
        let limit = sleep_limit_ns().map_or(SLEEP, Duration::from_nanos);
        let _ = futex::wait(&ENDS, seen, Some(limit));
        SLEEPERS.fetch_sub(1, AcqRel);
    } else {
        let entry = |fd: Option<i32>| libc::pollfd {
            fd: fd.unwrap_or(-1),
            events: libc::POLLIN,
            revents: 0,
        };
        let _ = call::poll(&mut rings.map(entry), SLEEP.as_millis() as i32);
    }
}

/// Waits until all that was asked for by now has ended.
pub fn finish() {
    let wanted = latest();
    note_wait();
    loop {
        progress();
        if done() >= wanted {
            return;
        }
        match is_flying() {
            true => wait(),
            false => flush_here(),
        }
    }
}

/// Gives the number `fd` up because the program wants it (dup2). Nothing is under way then.
pub fn vacate(fd: i32) {
    if !own::owns(fd) {
        return;
    }
    let mut state = held();
    if state.sink.descriptor() == Some(fd) {
        own::release(fd);
        state.sink = FileSink::new();
        return;
    }
    state.forget_logged();
    if own::owns(fd) {
        state.log.close();
    }
}

/// Readable when a flush has ended: of files, and in the log. -1 where there is none.
pub fn ring_fds() -> [i32; 2] {
    let state = held();
    [state.sink.descriptor().unwrap_or(-1), state.log.descriptor().unwrap_or(-1)]
}

/// How long a sleep for the rings may last; as long as it likes, but in tests that delay ends.
fn sleep_limit_ns() -> Option<u64> {
    #[cfg(feature = "flush-faults")]
    {
        let state = held();
        let flight = state.flying.as_ref().map_or(u64::MAX, |flight| flight.ends_at);
        Some(faults::sleep_limit_ns(flight.min(state.order.answers_at())))
    }
    #[cfg(not(feature = "flush-faults"))]
    None
}

/// How long a sleep beside a flush lasts at most; most flushes are much shorter.
pub fn sleep_at_most_ns() -> u64 {
    sleep_limit_ns().unwrap_or(SLEEP.as_nanos() as u64)
}

/// Nothing is held back: if nothing is unfinished either, calls go their usual way again.
pub fn rest() {
    let state = held();
    if state.order.is_empty() {
        clear(BUSY);
    }
}

/// How the flush of a file has failed; who asks tells the program, which may write again when it has been
/// told of every one.
pub fn failure_of(identity: (u64, u64)) -> Option<Errno> {
    let mut state = held();
    let found = state.failures.tell(identity);
    if found.is_some() && state.failures.are_told() {
        clear(UNTOLD);
    }
    found
}

/// In the child of a fork: what the parent has begun is the parent's.
pub fn reset_in_forked_child() {
    STATE.reset_in_forked_child();
    changing::reset_in_forked_child();
    writing::reset_in_forked_child();
    detect::reset_in_forked_child();
    worth::reset_in_forked_child();
    let mut state = STATE.lock();
    state.sink.forget_in_forked_child();
    state.log.forget_in_forked_child();
    own::release_all();
    (state.next, state.flying, state.checkpoint) = (Files::new(), None, None);
    DONE.store(state.order.forget(), Release);
    SLEEPERS.store(0, Relaxed);
    clear(BUSY | KEPT);
}
