//! What both processes tell each other beside the flux: steps, a bell, two kinds of lock, results.
//!
//! The bell sleeps and wakes as a snapshot region's does, so that no way of sharing has a cheaper
//! one than the others.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use heliostat_base::fd::OwnedFd;
use heliostat_base::futex;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::spin::yield_now;

use crate::Failure;

const BELL: usize = 0;
const ASLEEP: usize = 64;
const STOPPED: usize = 128;
const STEP: usize = 192;
const TICKET: usize = 256;
const SERVED: usize = 320;
const ANALYSED: usize = 384;
const WRONG: usize = 392;
const CHECKED: usize = 400;
const BUSY_NS: usize = 408;
const MUTEX: usize = 1024;
const EXPECTED: usize = 4096;
/// Steps whose digest is remembered.
const REMEMBERED: u64 = 4096;
/// Looks at the lock between two yields. Spinning alone never ends where both share a core.
const LOOKS: u32 = 200;

/// One page of words and a ring of digests, shared by fork.
pub struct Board {
    memory: SharedMapping,
    _fd: OwnedFd,
}

/// What the consumer has done.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// Versions analysed.
    pub analysed: u64,
    /// Of these, compared with the producer's own analysis of that step.
    pub checked: u64,
    /// Of these, different from it.
    pub wrong: u64,
    /// Time that analysing took.
    pub busy_ns: u64,
}

impl Board {
    /// A board with the locks free and nothing published.
    pub fn new() -> Result<Self, Failure> {
        let (fd, memory) =
            SharedMapping::create(c"sweep-board", EXPECTED + REMEMBERED as usize * 8)?;
        let board = Self { memory, _fd: fd };
        board.make_mutex()?;
        Ok(board)
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        self.memory.atomic_u32(at)
    }

    fn long(&self, at: usize) -> &AtomicU64 {
        self.memory.atomic_u64(at)
    }

    /// The newest step that is complete.
    pub fn step(&self) -> u64 {
        self.long(STEP).load(Acquire)
    }

    /// Says that `step` is complete.
    pub fn complete(&self, step: u64) {
        self.long(STEP).store(step, Release);
    }

    /// Wakes the consumer if it sleeps.
    pub fn ring(&self) {
        self.word(BELL).fetch_add(1, SeqCst);
        if self.word(ASLEEP).load(SeqCst) != 0 {
            futex::wake(self.word(BELL), u32::MAX);
        }
    }

    /// Sleeps until a step newer than `seen` is complete, or the end.
    pub fn wait(&self, seen: u64) {
        while self.step() <= seen && !self.is_stopped() {
            let rung = self.word(BELL).load(SeqCst);
            self.word(ASLEEP).store(1, SeqCst);
            if self.step() <= seen && !self.is_stopped() {
                let _ = futex::wait(self.word(BELL), rung, Some(Duration::from_millis(100)));
            }
            self.word(ASLEEP).store(0, Relaxed);
        }
    }

    /// Ends the consumer.
    pub fn stop(&self) {
        self.word(STOPPED).store(1, SeqCst);
        self.ring();
    }

    /// True once the producer has ended.
    pub fn is_stopped(&self) -> bool {
        self.word(STOPPED).load(SeqCst) != 0
    }

    /// Takes the spin lock: tickets, so that the consumer gets its turn between two steps.
    pub fn spin_lock(&self) {
        let mine = self.word(TICKET).fetch_add(1, Relaxed);
        let mut looks = 0;
        while self.word(SERVED).load(Acquire) != mine {
            std::hint::spin_loop();
            looks += 1;
            if looks % LOOKS == 0 {
                yield_now();
            }
        }
    }

    /// Gives the spin lock back.
    pub fn spin_unlock(&self) {
        self.word(SERVED).fetch_add(1, Release);
    }

    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.memory.as_ptr().wrapping_add(MUTEX).cast()
    }

    fn make_mutex(&self) -> Result<(), Failure> {
        let mut kind = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the first call initialises `kind` for the others; the mutex has a place of its
        // own in memory that is zero and stays mapped as long as `self`.
        let answers = unsafe {
            [
                libc::pthread_mutexattr_init(kind.as_mut_ptr()),
                libc::pthread_mutexattr_setpshared(kind.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED),
                libc::pthread_mutex_init(self.mutex(), kind.as_ptr()),
            ]
        };
        match answers {
            [0, 0, 0] => Ok(()),
            _ => Err("no mutex between processes".into()),
        }
    }

    /// Runs `what` while holding the mutex.
    pub fn with_mutex<T>(&self, what: impl FnOnce() -> T) -> T {
        // SAFETY: initialised by `new`; locked and unlocked by the same thread.
        unsafe { libc::pthread_mutex_lock(self.mutex()) };
        let answer = what();
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.mutex()) };
        answer
    }

    fn expected(&self, step: u64) -> &AtomicU64 {
        self.long(EXPECTED + (step % REMEMBERED) as usize * 8)
    }

    /// Remembers the producer's own digest of a step, to be said before the step is shared.
    pub fn expect(&self, step: u64, digest: u64) {
        self.expected(step).store(digest, Release);
    }

    /// Counts an analysis, and compares it with the producer's if that made one.
    pub fn analysed(&self, step: u64, digest: u64, ns: u64) {
        let expected = self.expected(step).load(Acquire);
        self.long(ANALYSED).fetch_add(1, Relaxed);
        self.long(BUSY_NS).fetch_add(ns, Relaxed);
        if expected != 0 {
            self.long(CHECKED).fetch_add(1, Relaxed);
            self.long(WRONG).fetch_add(u64::from(expected != digest), Relaxed);
        }
    }

    /// What the consumer has counted.
    pub fn tally(&self) -> Tally {
        let [analysed, checked, wrong, busy_ns] =
            [ANALYSED, CHECKED, WRONG, BUSY_NS].map(|at| self.long(at).load(Acquire));
        Tally { analysed, checked, wrong, busy_ns }
    }
}
