//! A lane's flags and sleep words, its bells and the wish to leave: all but bytes and positions.
//!
//! A side that is about to sleep says so in its word, fences, and looks once more; a side that
//! has published something fences and looks at the word (`D1` the reader's, `D2` the writer's).
//! Whoever takes a word with an exchange owes its owner a bell.

use heliostat_abi::stream::channel::direction as at;

use super::{Corrupt, Lane, Place};
use crate::sync::Ordering::{Acquire, Relaxed, SeqCst};
use crate::sync::{fence_after_locked, full_fence};

/// Values of the wish for the kernel's path. Odd ones have no answer yet.
const WANTED: u32 = 1;
const FULFILLED: u32 = 2;
const WANTED_SILENTLY: u32 = 3;

/// How a reader wants to be given the kernel's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// With a bell, since somebody of its side sleeps.
    Rung,
    /// With no bell: from the wish on it takes what comes on the shadow for payload.
    Silent,
}

impl<P: Place> Lane<P> {
    /// The writer's flags. Read `unread` again after a flag was seen (L3).
    #[inline]
    pub fn flags(&self) -> u32 {
        self.place.u32(at::FLAGS).load(Acquire) // L3
    }

    /// Adds flags, after the last byte was published, and fences before looking for a sleeper. What
    /// is held back goes before them, or nowhere with a reset.
    pub fn raise(&self, flags: u32) {
        match flags & at::RESET {
            0 => _ = self.push(),
            _ => self.drop_held(),
        }
        self.stamp();
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

    /// True while the writer says that it sleeps for room.
    pub fn is_writer_asleep(&self) -> bool {
        self.place.u32(at::WRITER_ASLEEP).load(Relaxed) != 0
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
        self.place.u32(at::WANT_NATIVE).swap(WANTED, SeqCst); // D1, D3
        fence_after_locked();
    }

    /// The reader needs no bell with that, nor any other; false when the writer was faster. What it
    /// finds after this (no bell under way, no byte in the ring) stays so: a writer that has put
    /// something there looks at the wish before it is done (D3).
    pub fn want_silence(&self) -> bool {
        let word = self.place.u32(at::WANT_NATIVE);
        let is_heard = word.compare_exchange(WANTED, WANTED_SILENTLY, SeqCst, SeqCst).is_ok();
        fence_after_locked();
        is_heard
    }

    /// True when the reader asked for the kernel's path and nobody has answered yet. A writer that
    /// has published something looks once more (D3).
    #[inline]
    pub fn is_native_wanted(&self) -> bool {
        self.place.u32(at::WANT_NATIVE).load(Acquire) & 1 != 0
    }

    /// True when a bell would be taken for payload. To be asked after the bell was counted (D3).
    pub fn is_silence_wanted(&self) -> bool {
        self.place.u32(at::WANT_NATIVE).load(Acquire) == WANTED_SILENTLY
    }

    /// True once the reader has asked, whatever was answered.
    #[inline]
    pub fn is_reader_leaving(&self) -> bool {
        self.place.u32(at::WANT_NATIVE).load(Acquire) != 0
    }

    /// The reader takes its wish back; false when the writer has begun to fulfil it.
    pub fn retract_want(&self) -> bool {
        self.answer_want(0).is_some()
    }

    /// The writer begins to fulfil the wish: from here on the reader leaves the ring alone. Nothing
    /// when there is none, or it was taken back.
    pub fn accept_want(&self) -> Option<Wish> {
        self.answer_want(FULFILLED).map(|wish| match wish {
            WANTED_SILENTLY => Wish::Silent,
            _ => Wish::Rung,
        })
    }

    /// Puts `answer` where a wish is. A word that is not one is left alone; a peer that changes its
    /// mind more often than an honest one does is not waited for.
    fn answer_want(&self, answer: u32) -> Option<u32> {
        let word = self.place.u32(at::WANT_NATIVE);
        [WANTED, WANTED_SILENTLY]
            .into_iter()
            .find(|wish| word.compare_exchange(*wish, answer, SeqCst, SeqCst).is_ok())
    }

    /// Unread bytes as a copy, for the writer that takes them back.
    pub fn take_back(&self) -> Result<Vec<u8>, Corrupt> {
        let head = self.head();
        let unread = self.checked(self.place.u64(at::TAIL).load(Relaxed).wrapping_sub(head))?;
        let origin = self.place.u64(at::ORIGIN).load(Relaxed);
        let mut bytes = vec![0; unread as usize];
        // Memory of our own does not fault.
        let _ = self.copy_out(head.wrapping_sub(origin), &mut bytes);
        Ok(bytes)
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
}
