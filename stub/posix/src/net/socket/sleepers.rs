//! Who sleeps on a connection's shadow in the kernel (`shadow::sleepers`).

use heliostat_base::sys::Errno;
use heliostat_base::{call, process};

use crate::thread;

/// A bell that is left lying so often has nobody who sleeps for it: some tenths of a second of one core.
const KEPT_MAX: u32 = 65_536;

/// How a thread sleeps there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleeper {
    /// In recv(2) with MSG_PEEK, without a frame of ours.
    Peeker,
    /// In a call of its own.
    Call,
    /// In poll(2), beside other descriptors.
    Poll,
}

/// Who sleeps there; held locked while bells are taken off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sleepers {
    /// The thread in recv(2), or 0.
    peeker: i32,
    calls: u32,
    polls: u32,
    /// How often a bell was left for others since one was taken.
    kept: u32,
}

impl Sleepers {
    /// Nobody.
    pub const NONE: Self = Self { peeker: 0, calls: 0, polls: 0, kept: 0 };

    /// Whether a call sleeps there that wakes those who rely on it when it gets up.
    pub fn has_call(&mut self) -> bool {
        self.calls > 0 || self.has_peeker()
    }

    fn has_peeker(&mut self) -> bool {
        // This thread, which is awake, left by a handler that jumped out; others were cancelled.
        let is_gone = |peeker| {
            peeker == thread::tid()
                || call::signal_thread(process::pid(), peeker, 0) == Err(Errno(libc::ESRCH))
        };
        if self.peeker != 0 && is_gone(self.peeker) {
            self.peeker = 0;
        }
        self.peeker != 0
    }

    /// One more, this thread.
    pub fn add(&mut self, sleeper: Sleeper) {
        match sleeper {
            Sleeper::Peeker => self.peeker = thread::tid(),
            Sleeper::Call => self.calls += 1,
            Sleeper::Poll => self.polls += 1,
        }
    }

    /// One less, this thread.
    pub fn remove(&mut self, sleeper: Sleeper) {
        match sleeper {
            Sleeper::Peeker if self.peeker == thread::tid() => self.peeker = 0,
            Sleeper::Peeker => {}
            Sleeper::Call => self.calls = self.calls.saturating_sub(1),
            Sleeper::Poll => self.polls = self.polls.saturating_sub(1),
        }
    }

    /// Whether bells may be taken off now, by somebody who is not among them.
    pub fn may_drain(&mut self) -> bool {
        if self.polls > 0 || self.has_call() {
            self.kept += 1;
            if self.kept < KEPT_MAX {
                return false;
            }
            *self = Self::NONE;
        }
        self.kept = 0;
        true
    }
}
