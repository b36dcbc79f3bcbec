//! A read or another operation as a call: asked and answered in one cache line.
//!
//! The line is `heliostat_ring::call_line`. The server's end, and why one line and not two, is in
//! `server/loop/src/call_line.rs`.

use heliostat_abi::file::delegated::{CallWords, MoreWords, OneRead, CALL_AT, CALL_BYTES};
use heliostat_base::mapping::{Access, MappingError, SharedMapping};
use heliostat_base::spin::pause;
use heliostat_ring::call_line::Asker;

/// Pauses before the first look: about what a cached read of 4 KiB takes. A look before takes the
/// line away from the server, which then has to fetch it back for the answer.
const PAUSES_FIRST: u32 = 2;
/// Looks, with a pause between two, before the call is waited for otherwise: some 2 us.
const LOOKS: u32 = 32;

/// The asking end of a session's call.
pub(super) struct CallLine {
    line: Asker,
}

impl CallLine {
    /// The call in the rings' memory, which nobody has used yet.
    pub(super) fn attach(rings: i32) -> Result<CallLine, MappingError> {
        let memory = SharedMapping::map(rings, CALL_AT, CALL_BYTES, Access::ReadWrite)?;
        Ok(CallLine { line: Asker::new(memory) })
    }

    /// Asks. The server's bell has to be rung afterwards.
    pub(super) fn ask(&mut self, read: &OneRead) {
        self.line.ask(read.to_words());
    }

    /// Asks for an operation, whose words these are. The server's bell has to be rung afterwards.
    pub(super) fn ask_more(&mut self, words: CallWords, more: MoreWords) {
        self.line.ask_more(words, more);
    }

    /// Whether it is answered.
    pub(super) fn is_answered(&self) -> bool {
        self.line.is_answered()
    }

    /// The answer, once; `None` while there is none.
    pub(super) fn take(&mut self) -> Option<i64> {
        self.line.take()
    }

    /// Looks for an answer for a moment.
    pub(super) fn look(&mut self) -> Option<i64> {
        (0..PAUSES_FIRST).for_each(|_| pause());
        for _ in 0..LOOKS {
            // The next call will be written here: the line comes for that at once.
            self.line.fetch_to_write();
            if let Some(answer) = self.take() {
                return Some(answer);
            }
            pause();
        }
        None
    }
}
