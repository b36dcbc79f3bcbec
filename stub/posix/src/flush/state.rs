//! Flushes in their order: the log takes each as it is asked for; of the files' own one at most is under
//! way, and one collects what is asked for meanwhile.
//!
//! A ticket is the number of a flush (`order`); what the program lets out waits for the newest that was
//! issued before. The lock is held for no longer than a look, but where a file's first flush opens the
//! log, or all is flushed before a call that changes names: a flush that a thread makes itself runs
//! outside.

use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_abi::code::Unlogged;
use heliostat_abi::session::report::Counter;
use heliostat_backend_log::Position;
use heliostat_base::lock::Lock;
use heliostat_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use heliostat_base::sync::{AtomicU32, AtomicU64};
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock, futex};

use super::files::{Failures, File, Files, FILES_MAX};
use super::log::{Appended, LogSink};
use super::order::{Order, Wait};
use super::sink::{self, FileSink};
use super::{clear, own, raise, BUSY, FAILED, KEPT, UNTOLD};
use crate::report;

#[cfg(feature = "flush-faults")]
#[path = "faults.rs"]
mod faults;

/// A program that waits so soon after it has asked is one whose waits flush.
const SOON_NS: u64 = 1_000_000;
/// Another thread may have taken the end that this one sleeps for, so nobody sleeps longer at once.
const SLEEP: Duration = Duration::from_millis(2);

static ISSUED: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
/// The first ticket whose flush has failed; no ticket is as large as its first value.
static FAILED_FROM: AtomicU64 = AtomicU64::new(u64::MAX);
/// Counts ends, for those who sleep while another thread flushes.
static ENDS: AtomicU32 = AtomicU32::new(0);
static SLEEPERS: AtomicU32 = AtomicU32::new(0);
static STATE: Lock<Flushes> = Lock::new(Flushes::new());

struct Flight {
    files: Files,
    /// By place of the file; those in a thread's hands are told all at once.
    left: usize,
    is_here: bool,
    #[cfg(feature = "flush-faults")]
    ends_at: u64,
}

/// The files are flushed so that the log can be trimmed; nobody waits for it.
struct Checkpoint {
    to: Position,
    left: usize,
    has_failed: bool,
}

struct Flushes {
    order: Order,
    /// Flushes of files that have ended.
    files_done: u64,
    next: Files,
    flying: Option<Flight>,
    failures: Failures,
    sink: FileSink,
    log: LogSink,
    checkpoint: Option<Checkpoint>,
    asked_at: u64,
    /// No wait has been seen since.
    is_unseen: bool,
    /// The program's waits flush.
    waits_soon: bool,
}

impl Flushes {
    const fn new() -> Self {
        Self {
            order: Order::new(),
            files_done: 0,
            next: Files::new(),
            flying: None,
            failures: Failures::new(),
            sink: FileSink::new(),
            log: LogSink::new(),
            checkpoint: None,
            asked_at: 0,
            is_unseen: false,
            waits_soon: false,
        }
    }

    /// The number of the flush of files that collects now.
    fn next_number(&self) -> u64 {
        self.files_done + 1 + u64::from(self.flying.is_some())
    }

    /// Puts it into the log, or else among the files of the next flush; false where that is full.
    fn ask(&mut self, mut file: File, path: &[u8]) -> bool {
        let wait = match self.log.append(file.fd, path) {
            Ok(Appended::Until(end)) => {
                report::count(Counter::LoggedFlushes);
                Some(Wait::Log(end))
            }
            Ok(Appended::Nothing) => None,
            Err(why) => {
                match why {
                    Unlogged::None => {}
                    // Its bytes are not what the log has of it.
                    Unlogged::Shortened | Unlogged::NotAppended => self.forget_logged(),
                    // Times and the like too: it may be new.
                    Unlogged::First => file.is_data = false,
                    _ => {}
                }
                if why != Unlogged::None {
                    report::count_unlogged(why);
                }
                if !self.next.add(file) {
                    return false;
                }
                Some(Wait::Files(self.next_number()))
            }
        };
        if self.log.kept.iter().next().is_some() {
            raise(KEPT);
        }
        if let Some(wait) = wait {
            #[cfg(feature = "flush-faults")]
            let not_before = if matches!(wait, Wait::Log(_)) { faults::log_ends_at() } else { 0 };
            #[cfg(not(feature = "flush-faults"))]
            let not_before = 0;
            ISSUED.store(self.order.issue(wait, not_before), Release);
            raise(BUSY);
        }
        self.check_point();
        true
    }

    fn take_off(&mut self, is_here: bool) -> Files {
        let files = std::mem::replace(&mut self.next, Files::new());
        self.flying = Some(Flight {
            files,
            left: files.iter().count(),
            is_here,
            #[cfg(feature = "flush-faults")]
            ends_at: faults::ends_at(),
        });
        files
    }

    /// Begins what is collected, unless one is under way.
    fn start(&mut self) {
        if self.log.is_unpushed() {
            self.log.push();
        }
        if self.flying.is_some() || self.next.is_empty() || !self.has_ring() {
            return;
        }
        let files = self.take_off(false);
        for (place, file) in files.iter().enumerate() {
            if !self.sink.begin(file.fd, file.is_data, place) {
                let answer = call::flush(file.fd, file.is_data).map(|_| ());
                self.land(place, answer);
            }
        }
        self.end_if_down();
    }

    fn has_ring(&mut self) -> bool {
        self.sink.is_there()
    }

    /// One file of the flight has ended, or one of a checkpoint, whose places are behind those.
    fn land(&mut self, place: usize, answer: Result<(), Errno>) {
        if place >= FILES_MAX {
            return self.land_checkpoint(place - FILES_MAX, answer);
        }
        let Some(flight) = &mut self.flying else { return };
        flight.left -= 1;
        #[cfg(feature = "flush-faults")]
        let answer = answer.and_then(|()| faults::answer());
        let identity = flight.files.iter().nth(place).map(|file| file.identity);
        if let (Err(errno), Some(identity)) = (answer, identity) {
            let number = self.files_done + 1;
            let from = self.order.ticket_of(number).unwrap_or(DONE.load(Relaxed) + 1);
            self.fail(identity, errno, from);
        }
    }

    fn fail(&mut self, identity: (u64, u64), errno: Errno, from: u64) {
        self.failures.add(identity, errno);
        FAILED_FROM.fetch_min(from, AcqRel);
        raise(FAILED | UNTOLD);
    }

    fn end_if_down(&mut self) {
        if self.flying.as_ref().is_none_or(|flight| flight.left > 0) {
            return;
        }
        #[cfg(feature = "flush-faults")]
        if self.flying.as_ref().is_some_and(|flight| clock::monotonic_ns() < flight.ends_at) {
            return;
        }
        self.flying = None;
        self.files_done += 1;
    }

    fn reap(&mut self) {
        while let Some((place, answer)) = self.sink.ended() {
            self.land(place, answer);
        }
        self.end_if_down();
        let logged = self.log.progress().unwrap_or_else(|_| self.leave_log());
        let now = if cfg!(feature = "flush-faults") { clock::monotonic_ns() } else { 0 };
        let done = self.order.land(self.files_done, logged, now);
        if done == DONE.load(Relaxed) {
            return;
        }
        DONE.store(done, Release);
        ENDS.fetch_add(1, Release);
        if SLEEPERS.load(Acquire) > 0 {
            futex::wake(&ENDS, u32::MAX >> 1);
        }
    }

    /// The log has failed, its files perhaps not: they are flushed, and so is all that waits for it.
    fn leave_log(&mut self) -> u64 {
        if let Err((identity, errno)) = self.log.leave() {
            self.fail(identity, errno, DONE.load(Relaxed) + 1);
        }
        clear(KEPT);
        self.order.leave_log(self.files_done);
        0
    }

    /// Empties the log, durably, before something changes that it counts on.
    fn forget_logged(&mut self) {
        if let Err((identity, errno)) = self.log.forget() {
            self.fail(identity, errno, DONE.load(Relaxed) + 1);
        }
        clear(KEPT);
    }

    /// Begins a checkpoint when the log is half full, and trims the log after one.
    fn check_point(&mut self) {
        if self.checkpoint.as_ref().is_some_and(|it| it.left == 0) {
            let ended = self.checkpoint.take();
            ended.filter(|it| !it.has_failed).into_iter().for_each(|it| self.log.trim(it.to));
        }
        let Some(to) = self.log.checkpoint_due().filter(|_| self.checkpoint.is_none()) else {
            return;
        };
        if !self.has_ring() {
            return;
        }
        let mut left = 0;
        for (place, kept) in self.log.kept.iter().enumerate().filter(|(_, it)| it.has_entries) {
            left += usize::from(self.sink.begin(kept.reader.as_raw_fd(), true, FILES_MAX + place));
        }
        let wanted = self.log.kept.iter().filter(|it| it.has_entries).count();
        self.checkpoint = Some(Checkpoint { to, left, has_failed: left < wanted });
    }

    fn land_checkpoint(&mut self, place: usize, answer: Result<(), Errno>) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.left = checkpoint.left.saturating_sub(1);
        if let Err(errno) = answer {
            checkpoint.has_failed = true;
            let birth = self.log.kept.iter().nth(place).map(|it| it.birth);
            let identity = birth.map_or((0, 0), |birth| (birth.device, birth.inode));
            self.fail(identity, errno, ISSUED.load(Relaxed) + 1);
        }
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
    let mut state = STATE.lock();
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
    let mut state = STATE.lock();
    state.forget_logged();
    state.reap();
}

/// Whether the log is kept for what the program has open as `fd`, and up to where it has its bytes.
pub fn kept(fd: i32) -> Option<u64> {
    STATE.lock().log.kept.iter().find(|kept| kept.fd == fd).map(|kept| kept.logged)
}

/// Whether the log is kept for a file that the program has open by one of these numbers.
pub fn keeps_any(first: u32, last: u32) -> bool {
    let state = STATE.lock();
    let found = state.log.kept.iter().any(|kept| (first..=last).contains(&(kept.fd as u32)));
    found
}

/// The program has begun to wait, or asks whether there is something to do.
pub fn note_wait() {
    let mut state = STATE.lock();
    if std::mem::take(&mut state.is_unseen) {
        state.waits_soon = clock::monotonic_ns().saturating_sub(state.asked_at) < SOON_NS;
    }
}

/// Takes note of what has ended.
pub fn progress() {
    STATE.lock().reap();
}

/// Begins what is collected, unless one is under way.
pub fn start() {
    let mut state = STATE.lock();
    state.reap();
    state.start();
}

/// True while all that is wanted is under way: nothing is left for `flush_here`.
pub fn is_flying() -> bool {
    let state = STATE.lock();
    let is_left = state.flying.is_none() && !state.next.is_empty() || state.log.is_unpushed();
    !is_left
}

/// True when a flush of what `fd` has open has been asked for, and has not ended.
pub fn is_pending(fd: i32) -> bool {
    let state = STATE.lock();
    let is_logged = state.order.is_logged() && state.log.kept.iter().any(|kept| kept.fd == fd);
    let is_flown = |flight: &Flight| flight.files.has(fd);
    is_logged || state.next.has(fd) || state.flying.as_ref().is_some_and(is_flown)
}

/// True when that is so, and no other file is to be flushed.
pub fn is_all_that_is_pending(fd: i32) -> bool {
    let state = STATE.lock();
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
    let mut state = STATE.lock();
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
    let mut state = STATE.lock();
    for (place, answer) in answers.into_iter().enumerate().take(files.iter().count()) {
        state.land(place, answer);
    }
    state.reap();
}

/// Sleeps until something that is under way has ended, or for a short while.
pub fn wait() {
    let seen = ENDS.load(Acquire);
    let mut state = STATE.lock();
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
    let mut state = STATE.lock();
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
    let state = STATE.lock();
    [state.sink.descriptor().unwrap_or(-1), state.log.descriptor().unwrap_or(-1)]
}

/// How long a sleep for the rings may last; as long as it likes, but in tests that delay ends.
pub fn sleep_limit_ns() -> Option<u64> {
    #[cfg(feature = "flush-faults")]
    {
        let state = STATE.lock();
        let flight = state.flying.as_ref().map(|flight| flight.ends_at);
        let first = flight.into_iter().chain(state.order.not_before()).min();
        Some(faults::sleep_limit_ns(first.unwrap_or(u64::MAX)))
    }
    #[cfg(not(feature = "flush-faults"))]
    None
}

/// Nothing is held back: if nothing is unfinished either, calls go their usual way again.
pub fn rest() {
    let state = STATE.lock();
    if state.order.is_empty() {
        clear(BUSY);
    }
}

/// How the flush of a file has failed; who asks tells the program.
pub fn failure_of(identity: (u64, u64)) -> Option<Errno> {
    let found = STATE.lock().failures.of(identity);
    if found.is_some() {
        clear(UNTOLD);
    }
    found
}

/// In the child of a fork: what the parent has begun is the parent's.
pub fn reset_in_forked_child() {
    STATE.reset_in_forked_child();
    let mut state = STATE.lock();
    state.sink.forget_in_forked_child();
    state.log.forget_in_forked_child();
    own::release_all();
    (state.next, state.flying, state.checkpoint) = (Files::new(), None, None);
    DONE.store(state.order.forget(), Release);
    SLEEPERS.store(0, Relaxed);
    clear(BUSY | KEPT);
}
