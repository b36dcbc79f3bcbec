//! Flushes in their order: at most one is under way, and one collects what is asked for meanwhile.
//!
//! ```text
//! tickets   .. done | flying | next (= issued)
//! ```
//! A ticket is the number of a flush; what the program lets out waits for the newest that was issued
//! before. The lock is held for no longer than a look: a flush that a thread makes itself runs outside.

use std::time::Duration;

use heliostat_base::lock::Lock;
use heliostat_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use heliostat_base::sync::{AtomicI32, AtomicU32, AtomicU64};
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock, futex};

use super::files::{Failures, File, Files};
use super::sink::{self, FileSink};
use super::{clear, raise, BUSY, FAILED, UNTOLD};

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
/// The sink's own descriptor, which the program must not close; -1 for none.
static OWN_FD: AtomicI32 = AtomicI32::new(-1);
static STATE: Lock<Flushes> = Lock::new(Flushes::new());

struct Flight {
    files: Files,
    /// By place of the file; those in a thread's hands are told all at once.
    left: usize,
    is_here: bool,
    #[cfg(feature = "flush-faults")]
    ends_at: u64,
}

struct Flushes {
    done: u64,
    next: Files,
    flying: Option<Flight>,
    failures: Failures,
    sink: FileSink,
    asked_at: u64,
    /// No wait has been seen since.
    is_unseen: bool,
    /// The program's waits flush.
    waits_soon: bool,
}

impl Flushes {
    const fn new() -> Self {
        Self {
            done: 0,
            next: Files::new(),
            flying: None,
            failures: Failures::new(),
            sink: FileSink::new(),
            asked_at: 0,
            is_unseen: false,
            waits_soon: false,
        }
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

    /// Begins what is collected, unless one is under way; false where it has to be flushed here.
    fn start(&mut self) -> bool {
        if self.flying.is_some() || self.next.is_empty() {
            return true;
        }
        if !self.sink.is_there() {
            return false;
        }
        OWN_FD.store(self.sink.descriptor().unwrap_or(-1), Release);
        let files = self.take_off(false);
        for (place, file) in files.iter().enumerate() {
            if !self.sink.begin(file, place) {
                let answer = call::flush(file.fd, file.is_data).map(|_| ());
                self.land(place, answer);
            }
        }
        self.end_if_down();
        true
    }

    fn land(&mut self, place: usize, answer: Result<(), Errno>) {
        let Some(flight) = &mut self.flying else { return };
        flight.left -= 1;
        #[cfg(feature = "flush-faults")]
        let answer = answer.and_then(|()| faults::answer());
        if let (Err(errno), Some(file)) = (answer, flight.files.iter().nth(place)) {
            self.failures.add(file.identity, errno);
            FAILED_FROM.fetch_min(self.done + 1, AcqRel);
            raise(FAILED | UNTOLD);
        }
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
        self.done += 1;
        DONE.store(self.done, Release);
        ENDS.fetch_add(1, Release);
        if SLEEPERS.load(Acquire) > 0 {
            futex::wake(&ENDS, u32::MAX >> 1);
        }
    }

    fn reap(&mut self) {
        while let Some((place, answer)) = self.sink.ended() {
            self.land(place, answer);
        }
        self.end_if_down();
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

/// Asks for a flush of a file; false when the next one has no room for it.
pub fn begin(fd: i32, is_data: bool, identity: (u64, u64)) -> bool {
    let mut state = STATE.lock();
    if !state.next.add(File { fd, is_data, identity }) {
        return false;
    }
    let ticket = state.done + 1 + u64::from(state.flying.is_some());
    ISSUED.store(ticket, Release);
    raise(BUSY);
    (state.asked_at, state.is_unseen) = (clock::monotonic_ns(), true);
    if !state.waits_soon {
        state.start();
    }
    true
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

/// True while a flush is under way.
pub fn is_flying() -> bool {
    STATE.lock().flying.is_some()
}

/// True when a flush of what `fd` has open has been asked for, and has not ended.
pub fn is_pending(fd: i32) -> bool {
    let state = STATE.lock();
    state.next.has(fd) || state.flying.as_ref().is_some_and(|flight| flight.files.has(fd))
}

/// True when that is so, and no other file is to be flushed.
pub fn is_all_that_is_pending(fd: i32) -> bool {
    let state = STATE.lock();
    let flying = state.flying.iter().flat_map(|flight| flight.files.iter());
    let mut all = state.next.iter().chain(flying);
    let Some(identity) = all.clone().find(|file| file.fd == fd).map(|file| file.identity) else {
        return false;
    };
    all.all(|file| file.identity == identity)
}

/// Makes the next flush in this thread, if none is under way.
pub fn flush_here() {
    let mut state = STATE.lock();
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
    state.end_if_down();
}

/// Sleeps until the flush that is under way has ended, or for a short while.
pub fn wait() {
    let seen = ENDS.load(Acquire);
    let mut state = STATE.lock();
    state.reap();
    let Some(flight) = &state.flying else { return };
    let (is_here, ring) = (flight.is_here, state.sink.descriptor());
    drop(state);
    match ring.filter(|_| !is_here && sleep_limit_ns().is_none()) {
        Some(ring) => {
            let mut fds = [libc::pollfd { fd: ring, events: libc::POLLIN, revents: 0 }];
            let _ = call::poll(&mut fds, SLEEP.as_millis() as i32);
        }
        None => {
            SLEEPERS.fetch_add(1, AcqRel);
            let limit = sleep_limit_ns().map_or(SLEEP, Duration::from_nanos);
            let _ = futex::wait(&ENDS, seen, Some(limit));
            SLEEPERS.fetch_sub(1, AcqRel);
        }
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

/// The descriptor that is the stub's own, if there is one.
pub fn own_fd() -> Option<u32> {
    u32::try_from(OWN_FD.load(Acquire)).ok()
}

/// True when `fd` is the stub's own, which the program must not close.
#[inline]
pub fn owns(fd: i32) -> bool {
    fd >= 0 && fd == OWN_FD.load(Relaxed)
}

/// Gives the number `fd` up because the program wants it (dup2). Nothing is under way then.
pub fn vacate(fd: i32) {
    if owns(fd) {
        OWN_FD.store(-1, Release);
        STATE.lock().sink = FileSink::new();
    }
}

/// Readable when a flush has ended.
pub fn ring_fd() -> Option<i32> {
    STATE.lock().sink.descriptor()
}

/// How long a sleep for the ring may last; as long as it likes, but in tests that delay ends.
pub fn sleep_limit_ns() -> Option<u64> {
    #[cfg(feature = "flush-faults")]
    return Some(faults::sleep_limit_ns(
        STATE.lock().flying.as_ref().map_or(u64::MAX, |flight| flight.ends_at),
    ));
    #[cfg(not(feature = "flush-faults"))]
    None
}

/// Nothing is held back: if nothing is unfinished either, calls go their usual way again.
pub fn rest() {
    let state = STATE.lock();
    if state.done == ISSUED.load(Relaxed) {
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
    OWN_FD.store(-1, Release);
    let mut state = STATE.lock();
    state.sink.forget_in_forked_child();
    (state.next, state.flying) = (Files::new(), None);
    state.done = ISSUED.load(Relaxed);
    DONE.store(state.done, Release);
    SLEEPERS.store(0, Relaxed);
    clear(BUSY);
}
