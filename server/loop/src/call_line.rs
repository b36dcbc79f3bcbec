//! Reads that a session asks for one at a time, as calls: asked and answered in one cache line.
//!
//! A round trip over the rings moves two lines, each taken away from who polls it and then fetched:
//! four ways between two cores. Here it is one line, and the loop takes it for itself while it
//! copies, so that its answer is stored without a way of its own. Only what the cache has is
//! answered; the rest is declined, and the session asks for it by the ring. The line is
//! `heliostat_ring::call_line`, the session's stub `stub/file/src/call.rs`.

use heliostat_base::mapping::SharedMapping;
use heliostat_ring::call_line::{Answerer, Asked};

/// Sweeps after an answer in which the loop does not look: the session is about to fetch the line
/// and to ask again, and a look would take it away in between.
const SWEEPS_AWAY: u32 = 2;

/// The server's end of a session's call.
pub struct CallLine {
    line: Answerer,
    away: u32,
}

impl CallLine {
    /// For a page that is all zero.
    pub fn new(memory: SharedMapping) -> CallLine {
        CallLine { line: Answerer::new(memory), away: 0 }
    }

    /// Whether a call waits for its answer.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.line.is_asked()
    }

    /// What is asked, copied once; nothing while it is too early to look.
    #[inline]
    pub fn take(&mut self) -> Option<Asked> {
        if self.away > 0 {
            self.away -= 1;
            return None;
        }
        self.line.take()
    }

    /// Answers what was taken, once.
    #[inline]
    pub fn answer(&mut self, result: i64) {
        self.line.answer(result);
        self.away = SWEEPS_AWAY;
    }
}
