//! What is asked for, under way and done, of the log and of files: one value, which a lock guards.
//!
//! The log takes each flush as it is asked for; of the files' own one at most is under way, and one collects
//! what is asked for meanwhile. The words beside it are what is read without the lock.

use std::os::fd::AsRawFd;

use heliostat_abi::code::Unlogged;
use heliostat_abi::session::report::Counter;
use heliostat_backend_log::Position;
use heliostat_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use heliostat_base::sync::{AtomicU32, AtomicU64};
use heliostat_base::sys::Errno;
use heliostat_base::{call, futex};

use super::files::{Failures, File, Files, FILES_MAX};
use super::log::{Appended, LogSink};
use super::order::{Order, Wait};
use super::sink::FileSink;
use super::{clear, raise, worth, BUSY, FAILED, KEPT, UNTOLD};
use crate::report;

#[cfg(feature = "flush-faults")]
use heliostat_base::clock;

#[cfg(feature = "flush-faults")]
#[path = "faults.rs"]
pub mod faults;

pub static ISSUED: AtomicU64 = AtomicU64::new(0);
pub static DONE: AtomicU64 = AtomicU64::new(0);
/// The first ticket whose flush has failed; no ticket is as large as its first value.
pub static FAILED_FROM: AtomicU64 = AtomicU64::new(u64::MAX);
/// Counts ends, for those who sleep while another thread flushes.
pub static ENDS: AtomicU32 = AtomicU32::new(0);
pub static SLEEPERS: AtomicU32 = AtomicU32::new(0);

/// A flush of files that is under way.
pub struct Flight {
    pub files: Files,
    /// By place of the file; those in a thread's hands are told all at once.
    left: usize,
    pub is_here: bool,
    #[cfg(feature = "flush-faults")]
    pub ends_at: u64,
}

/// The files are flushed so that the log can be trimmed; nobody waits for it.
pub struct Checkpoint {
    to: Position,
    left: usize,
    has_failed: bool,
    /// By place: by then another may be kept there.
    files: [(u64, u64); FILES_MAX],
}

/// All of it.
pub struct Flushes {
    pub order: Order,
    /// Flushes of files that have ended.
    pub files_done: u64,
    pub next: Files,
    pub flying: Option<Flight>,
    pub failures: Failures,
    pub sink: FileSink,
    pub log: LogSink,
    pub checkpoint: Option<Checkpoint>,
    pub asked_at: u64,
    /// No wait has been seen since.
    pub is_unseen: bool,
    /// The program's waits flush.
    pub waits_soon: bool,
}

impl Flushes {
    /// Nothing was asked for.
    pub const fn new() -> Self {
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
    pub fn ask(&mut self, mut file: File, path: &[u8]) -> bool {
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
                worth::note_begun(file.identity);
                Some(Wait::Files(self.next_number()))
            }
        };
        if self.log.kept.iter().next().is_some() {
            raise(KEPT);
        }
        if let Some(wait) = wait {
            ISSUED.store(self.order.issue(wait, answers_at(wait)), Release);
            raise(BUSY);
        }
        self.check_point();
        true
    }

    /// The next flush of files begins.
    pub fn take_off(&mut self, is_here: bool) -> Files {
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
    pub fn start(&mut self) {
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
    pub fn land(&mut self, place: usize, answer: Result<(), Errno>) {
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

    /// Takes note of what has ended.
    pub fn reap(&mut self) {
        while let Some((place, answer)) = self.sink.ended() {
            self.land(place, answer);
        }
        self.end_if_down();
        let logged = self.log.progress().unwrap_or_else(|_| self.leave_log());
        let done = self.order.land(self.files_done, logged, now());
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
    pub fn forget_logged(&mut self) {
        if let Err((identity, errno)) = self.log.forget() {
            self.fail(identity, errno, DONE.load(Relaxed) + 1);
        }
        if !self.log.is_open() {
            // It has failed meanwhile, and tells no end any more; its files were flushed.
            self.order.leave_log(self.files_done);
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
        let (mut left, mut files) = (0, [(0, 0); FILES_MAX]);
        for (place, kept) in self.log.kept.iter().enumerate().filter(|(_, it)| it.has_entries) {
            files[place] = (kept.birth.device, kept.birth.inode);
            left += usize::from(self.sink.begin(kept.reader.as_raw_fd(), true, FILES_MAX + place));
        }
        let wanted = self.log.kept.iter().filter(|it| it.has_entries).count();
        self.checkpoint = Some(Checkpoint { to, left, has_failed: left < wanted, files });
    }

    fn land_checkpoint(&mut self, place: usize, answer: Result<(), Errno>) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.left = checkpoint.left.saturating_sub(1);
        if let Err(errno) = answer {
            checkpoint.has_failed = true;
            let identity = checkpoint.files[place % FILES_MAX];
            self.fail(identity, errno, ISSUED.load(Relaxed) + 1);
        }
    }
}

/// In tests, when the device answers at the earliest. A flush of files knows by itself.
fn answers_at(_wait: Wait) -> u64 {
    #[cfg(feature = "flush-faults")]
    if matches!(_wait, Wait::Log(_)) {
        return faults::log_ends_at();
    }
    0
}

/// The time, where somebody wants to know.
fn now() -> u64 {
    #[cfg(feature = "flush-faults")]
    return clock::monotonic_ns();
    #[cfg(not(feature = "flush-faults"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_for_a_log_that_was_given_up_when_it_was_to_be_emptied() {
        let mut flushes = Flushes::new();
        flushes.order.issue(Wait::Log(100), 0);
        assert_eq!(flushes.log.progress(), Ok(0), "as of a log that is not open");
        flushes.forget_logged();
        assert_eq!(flushes.order.land(flushes.files_done, 0, u64::MAX), 1);
        assert!(flushes.order.is_empty());
    }
}
