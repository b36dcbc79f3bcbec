//! Who waits for a connection's bells: all that rely on them, and of those who sleeps on the shadow in the
//! kernel (`shadow::sleepers`).

use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};

use super::{Socket, Stream};
use crate::{owner, thread};

/// A bell that is left lying for so long, and this often, has nobody who sleeps for it. The time alone would
/// take a process that was stopped for one that has gone.
const LEFT_NS_MAX: u64 = 2_000_000_000;
const LEFT_TIMES_MAX: u32 = 256;

/// How many of this process rely on a bell for a connection.
pub struct Armed {
    /// For bytes.
    pub readers: u32,
    /// For room.
    pub writers: u32,
}

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
    /// Since when bells lie there for others, and how often they were left; 0 where none does.
    left_at_ns: u64,
    left_times: u32,
    /// Another one after all were given up: whose place is of an earlier one is among them no more.
    epoch: u32,
}

impl Sleepers {
    /// Nobody.
    pub const NONE: Self =
        Self { peeker: 0, calls: 0, polls: 0, left_at_ns: 0, left_times: 0, epoch: 0 };

    /// Whether a call sleeps there that wakes those who rely on it when it gets up.
    pub fn has_call(&mut self) -> bool {
        self.calls > 0 || self.has_peeker()
    }

    /// Whether anybody sleeps there.
    pub fn has_any(&mut self) -> bool {
        self.polls > 0 || self.has_call()
    }

    fn has_peeker(&mut self) -> bool {
        // This thread, which is awake, left by a handler that jumped out; others were cancelled.
        let is_gone = |peeker| {
            peeker == thread::tid()
                || call::signal_thread(owner::pid(), peeker, 0) == Err(Errno(libc::ESRCH))
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

    /// Of which time these are: a place among others of an earlier one is none.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether bells may be taken off now, by somebody who is not among them.
    pub fn may_drain(&mut self) -> bool {
        if !self.has_any() {
            self.left_at_ns = 0;
            return true;
        }
        let now = clock::monotonic_ns();
        if self.left_at_ns == 0 {
            (self.left_at_ns, self.left_times) = (now, 0);
        }
        self.left_times += 1;
        let is_given_up = self.left_times > LEFT_TIMES_MAX && now - self.left_at_ns > LEFT_NS_MAX;
        if is_given_up {
            *self = Self { epoch: self.epoch.wrapping_add(1), ..Self::NONE };
        }
        is_given_up
    }
}

impl Socket {
    /// Says that one more sleeper, or cold interest, relies on bells. The caller looks at the
    /// stream once more after this.
    pub fn arm(&self, stream: &Stream, for_room: bool) {
        let mut armed = self.armed.lock();
        armed.readers += 1;
        stream.incoming.reader_sleeps();
        if for_room {
            armed.writers += 1;
            stream.outgoing.writer_sleeps();
        }
    }

    /// One less. The words stay set, or are set again, while others still rely on them: the peer
    /// took them back when it rang, and that bell may have woken only one of us.
    pub fn disarm(&self, stream: &Stream, for_room: bool) {
        let mut armed = self.armed.lock();
        armed.readers = armed.readers.saturating_sub(1);
        if for_room {
            armed.writers = armed.writers.saturating_sub(1);
        }
        if self.is_native() {
            return; // a slot that was given back may be another stream's by now
        }
        match armed.readers {
            0 => stream.incoming.reader_awake(),
            _ => stream.incoming.reader_sleeps(),
        }
        if for_room {
            match armed.writers {
                0 => stream.outgoing.writer_awake(),
                _ => stream.outgoing.writer_sleeps(),
            }
        }
    }

    /// Whether epoll sets hold it.
    pub fn is_in_sets(&self) -> bool {
        !self.sets.lock().is_empty()
    }
}
