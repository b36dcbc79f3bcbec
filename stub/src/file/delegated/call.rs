//! One read as a call: asked and answered in one cache line, where the cache has its bytes.
//!
//! The server's end, and why one line and not two, is in `server/loop/src/call_line.rs`.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use heliostat_abi::delegated::{
    OneRead, CALL_ANSWER_AT, CALL_AT, CALL_BYTES, CALL_TURN_AT, CALL_WORDS_AT,
};
use heliostat_base::mapping::{Access, MappingError, SharedMapping};
use heliostat_base::spin::pause;

/// Pauses before the first look: about what a cached read of 4 KiB takes. A look before takes the
/// line away from the server, which then has to fetch it back for the answer.
const PAUSES_FIRST: u32 = 2;
/// Looks, with a pause between two, before the call is waited for otherwise: some 2 us.
const LOOKS: u32 = 32;

/// The asking end of a session's call.
pub(super) struct CallLine {
    memory: SharedMapping,
    /// The turn of the last answer.
    turn: u64,
}

impl CallLine {
    /// The call in the rings' memory, which nobody has used yet.
    pub(super) fn attach(rings: i32) -> Result<CallLine, MappingError> {
        let memory = SharedMapping::map(rings, CALL_AT, CALL_BYTES, Access::ReadWrite)?;
        Ok(CallLine { memory, turn: 0 })
    }

    /// Asks. The server's bell has to be rung afterwards.
    pub(super) fn ask(&mut self, read: &OneRead) {
        for (at, word) in CALL_WORDS_AT.into_iter().zip(read.to_words()) {
            self.memory.atomic_u64(at).store(word, Relaxed);
        }
        // Whoever sees the turn sees what is asked.
        self.memory.atomic_u64(CALL_TURN_AT).store(self.turn + 1, Release);
    }

    /// Whether it is answered.
    pub(super) fn is_answered(&self) -> bool {
        self.memory.atomic_u64(CALL_TURN_AT).load(Acquire) == self.turn + 2
    }

    /// The answer, once; `None` while there is none.
    pub(super) fn take(&mut self) -> Option<i64> {
        self.is_answered().then(|| {
            self.turn += 2;
            self.memory.atomic_u64(CALL_ANSWER_AT).load(Relaxed) as i64
        })
    }

    /// Looks for an answer for a moment.
    pub(super) fn look(&mut self) -> Option<i64> {
        (0..PAUSES_FIRST).for_each(|_| pause());
        for _ in 0..LOOKS {
            // The next call will be written here: the line comes for that at once.
            self.memory.fetch_to_write(CALL_TURN_AT);
            if let Some(answer) = self.take() {
                return Some(answer);
            }
            pause();
        }
        None
    }
}
