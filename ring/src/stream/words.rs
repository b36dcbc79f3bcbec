//! A lane's flags and sleep words, its bells and the wish to leave: all but bytes and positions.
//!
//! A side that is about to sleep says so in its word, fences, and looks once more; a side that
//! has published something fences and looks at the word (`D1` the reader's, `D2` the writer's).
//! Whoever takes a word with an exchange owes its owner a bell.

use heliostat_abi::channel::direction as at;

use super::{Lane, Place};
use crate::sync::Ordering::{Acquire, Relaxed, SeqCst};
use crate::sync::{fence_after_locked, full_fence, AtomicU32};

/// Values of the wish for the kernel's path.
const WANTED: u32 = 1;
const FULFILLED: u32 = 2;

impl<P: Place> Lane<P> {
    /// The writer's flags. Read `unread` again after a flag was seen (L3).
    #[inline]
    pub fn flags(&self) -> u32 {
        self.place.u32(at::FLAGS).load(Acquire) // L3
    }

    /// Adds flags, after the last byte was published, and fences before looking for a sleeper.
    pub fn raise(&self, flags: u32) {
        self.place.u32(at::FLAGS).fetch_or(flags, SeqCst); // L3, D1
        fence_after_locked();
    }

    /// True when the reader said it sleeps; who takes the word must ring.
    #[inline]
    pub fn take_sleeping_reader(&self) -> bool {
        let word = self.place.u32(at::READER_ASLEEP);
        word.load(Relaxed) != 0 && word.swap(0, SeqCst) != 0 // D1
    }

    /// The reader is about to sleep; it must look at the lane again after this (D1).
    #[inline]
    pub fn reader_sleeps(&self) {
        self.place.u32(at::READER_ASLEEP).store(1, Relaxed);
        full_fence();
    }

    /// The reader is awake again and needs no bell.
    #[inline]
    pub fn reader_awake(&self) {
        let word = self.place.u32(at::READER_ASLEEP);
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }

    /// True when the writer said it sleeps for room; who takes the word must ring.
    pub fn take_sleeping_writer(&self) -> bool {
        full_fence(); // D2
        let word = self.place.u32(at::WRITER_ASLEEP);
        word.load(Relaxed) != 0 && word.swap(0, SeqCst) != 0
    }

    /// The writer is about to sleep; it must look at the room again after this (D2).
    pub fn writer_sleeps(&self) {
        self.place.u32(at::WRITER_ASLEEP).store(1, Relaxed);
        full_fence();
    }

    /// The writer is awake again.
    pub fn writer_awake(&self) {
        let word = self.place.u32(at::WRITER_ASLEEP);
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }

    /// The reader asks the writer to switch to the shadow and take unread bytes back.
    pub fn want_native(&self) {
        self.place.u32(at::WANT_NATIVE).swap(WANTED, SeqCst); // D1
        fence_after_locked();
    }

    /// True when the reader asked for that and nobody has answered yet.
    #[inline]
    pub fn is_native_wanted(&self) -> bool {
        self.place.u32(at::WANT_NATIVE).load(Acquire) == WANTED
    }

    /// The reader takes its wish back; false when the writer has begun to fulfil it.
    pub fn retract_want(&self) -> bool {
        self.place.u32(at::WANT_NATIVE).compare_exchange(WANTED, 0, SeqCst, SeqCst).is_ok()
    }

    /// The writer begins to fulfil the wish: from here on the reader leaves the ring alone. False
    /// when there is none, or it was taken back.
    pub fn accept_want(&self) -> bool {
        self.place.u32(at::WANT_NATIVE).compare_exchange(WANTED, FULFILLED, SeqCst, SeqCst).is_ok()
    }

    /// Counts one bell byte before it is sent in this direction.
    pub fn count_bell(&self) {
        self.place.u32(at::BELLS).fetch_add(1, SeqCst);
    }

    /// Takes a counted bell byte back that the shadow refused.
    pub fn uncount_bell(&self) {
        self.place.u32(at::BELLS).fetch_sub(1, SeqCst);
    }

    /// Bell bytes sent and not yet taken off the shadow by the reading side.
    pub fn bells_pending(&self) -> u32 {
        let sent = self.place.u32(at::BELLS).load(Acquire);
        sent.wrapping_sub(self.place.u32(at::DRAINED).load(Relaxed))
    }

    /// Notes that the reading side took `count` bell bytes off the shadow.
    pub fn bells_drained(&self, count: u32) {
        self.place.u32(at::DRAINED).fetch_add(count, SeqCst);
    }

    /// Lock word of the writing side's processes.
    pub fn write_lock(&self) -> &AtomicU32 {
        self.place.u32(at::WRITE_LOCK)
    }

    /// Lock word of the reading side's processes.
    pub fn read_lock(&self) -> &AtomicU32 {
        self.place.u32(at::READ_LOCK)
    }
}
