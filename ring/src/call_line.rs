//! A call: asked and answered in one cache line, one at a time, by two processes.
//!
//! ```text
//! turn: 2n --asked--> 2n + 1 --answered--> 2n + 2
//! ```
//!
//! The turn says whose the other words are: the asker's while it is even, the answerer's while it is
//! odd. What is asked and what is answered means nothing here; waiting for the turn is by looking, or
//! by the bells of two rings (`doorbell`).
//!
//! Orders (labels stand beside each release and its acquire; `models` shows them under loom):
//! - `C1` what is asked before the odd turn, and the asker's reads of the last answer;
//! - `C2` the answer, and the bytes that go with it, before the even turn, and the answerer's reads of
//!   what was asked.
//!
//! Both ends are foreign to each other: an end remembers its own turn, and any other value than the
//! next one is no call, or no answer. Words are copied once.

use heliostat_abi::file::delegated::{CALL_ANSWER_AT, CALL_MORE_AT, CALL_TURN_AT, CALL_WORDS_AT};
use heliostat_base::mapping::SharedMapping;

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{shared_u64, AtomicU64};

/// What is asked: four words.
pub type Asked = [u64; CALL_WORDS_AT.len()];
/// What is asked besides, where the four do not say it all.
pub type AskedMore = [u64; CALL_MORE_AT.len()];

/// The words of a line.
pub trait Line {
    /// The word at one of `abi::delegated`'s offsets.
    fn word(&self, offset: usize) -> &AtomicU64;
    /// Has the line fetched for writing, while other things are done; a hint.
    fn fetch_to_write(&self) {}
}

impl Line for SharedMapping {
    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU64 {
        shared_u64(self.atomic_u64(offset))
    }

    #[inline(always)]
    fn fetch_to_write(&self) {
        SharedMapping::fetch_to_write(self, CALL_TURN_AT);
    }
}

/// The asking end.
#[derive(Debug)]
pub struct Asker<L: Line = SharedMapping> {
    line: L,
    /// The turn of the last answer.
    turn: u64,
}

impl<L: Line> Asker<L> {
    /// Of a line that is all zero.
    pub fn new(line: L) -> Self {
        Self { line, turn: 0 }
    }

    /// Asks. Not again before the answer was taken.
    #[inline]
    pub fn ask(&mut self, asked: Asked) {
        for (at, word) in CALL_WORDS_AT.into_iter().zip(asked) {
            self.line.word(at).store(word, Relaxed);
        }
        self.line.word(CALL_TURN_AT).store(self.turn.wrapping_add(1), Release); // C1
    }

    /// Asks what four words do not say. Not again before the answer was taken.
    pub fn ask_more(&mut self, asked: Asked, more: AskedMore) {
        for (at, word) in CALL_MORE_AT.into_iter().zip(more) {
            self.line.word(at).store(word, Relaxed);
        }
        self.ask(asked); // C1
    }

    /// Whether what was asked is answered.
    #[inline]
    pub fn is_answered(&self) -> bool {
        self.line.word(CALL_TURN_AT).load(Acquire) == self.turn.wrapping_add(2) // C2
    }

    /// The answer, once; `None` while there is none.
    #[inline]
    pub fn take(&mut self) -> Option<i64> {
        self.is_answered().then(|| {
            self.turn = self.turn.wrapping_add(2);
            self.line.word(CALL_ANSWER_AT).load(Relaxed) as i64
        })
    }

    /// The next call will be written here: the line comes for that at once.
    #[inline]
    pub fn fetch_to_write(&self) {
        self.line.fetch_to_write();
    }
}

/// The answering end.
#[derive(Debug)]
pub struct Answerer<L: Line = SharedMapping> {
    line: L,
    /// The turn with which the next call is asked. Any other value is no call.
    next: u64,
}

impl<L: Line> Answerer<L> {
    /// Of a line that is all zero.
    pub fn new(line: L) -> Self {
        Self { line, next: 1 }
    }

    /// Whether a call waits for its answer.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.line.word(CALL_TURN_AT).load(Acquire) == self.next // C1
    }

    /// What is asked, copied once; `None` while there is no call.
    #[inline]
    pub fn take(&self) -> Option<Asked> {
        if !self.is_asked() {
            return None;
        }
        let asked = CALL_WORDS_AT.map(|at| self.line.word(at).load(Relaxed));
        self.line.fetch_to_write();
        Some(asked)
    }

    /// What is asked besides, copied once, of a call that was taken.
    pub fn take_more(&self) -> AskedMore {
        CALL_MORE_AT.map(|at| self.line.word(at).load(Relaxed))
    }

    /// Answers what was taken, once.
    #[inline]
    pub fn answer(&mut self, result: i64) {
        self.line.word(CALL_ANSWER_AT).store(result as u64, Relaxed);
        self.line.word(CALL_TURN_AT).store(self.next.wrapping_add(1), Release); // C2
        self.next = self.next.wrapping_add(2);
    }
}

#[cfg(all(test, loom))]
pub(crate) mod models;
