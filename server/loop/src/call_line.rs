//! What a session asks for one at a time, as calls: asked and answered in one cache line.
//!
//! A round trip over the rings moves two lines, each taken away from who polls it and then fetched:
//! four ways between two cores. Here it is one line, and the loop takes it for itself while it
//! copies, so that its answer is stored without a way of its own. A read of one piece is answered if
//! its service can do that at once, and declined otherwise: the session asks for it by the ring.
//! Everything else, of any service, becomes an operation like others, and what ends it goes into the
//! line instead of a ring. The line is `heliostat_ring::call_line`, the session's stub
//! `stub/link/src/call.rs`.

use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::call_line::{Answerer, Asked, AskedMore};

/// Sweeps after an answer in which the loop does not look: the session is about to fetch the line
/// and to ask again, and a look would take it away in between.
const SWEEPS_AWAY: u32 = 2;

/// The server's end of a session's call.
pub struct CallLine {
    line: Answerer,
    away: u32,
    /// The operation whose end is the answer.
    operation: Option<ObjectId>,
}

impl CallLine {
    /// For a page that is all zero.
    pub fn new(memory: SharedMapping) -> CallLine {
        CallLine { line: Answerer::new(memory), away: 0, operation: None }
    }

    /// Whether a call waits to be taken.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.operation.is_none() && self.line.is_asked()
    }

    /// What is asked, copied once; nothing while it is too early to look, or one is under way.
    #[inline]
    pub fn take(&mut self) -> Option<Asked> {
        if self.operation.is_some() {
            return None;
        }
        if self.away > 0 {
            self.away -= 1;
            return None;
        }
        self.line.take()
    }

    /// The other words of what was taken.
    pub fn take_more(&self) -> AskedMore {
        self.line.take_more()
    }

    /// What was taken is answered when this operation ends.
    pub fn await_end(&mut self, operation: ObjectId) {
        self.operation = Some(operation);
    }

    /// Answers if an operation that has ended is the one that was called.
    #[inline]
    pub fn ended(&mut self, operation: ObjectId, result: i64) -> bool {
        let is_called = self.operation == Some(operation);
        if is_called {
            self.operation = None;
            self.answer(result);
        }
        is_called
    }

    /// Answers what was taken, once.
    #[inline]
    pub fn answer(&mut self, result: i64) {
        self.line.answer(result);
        self.away = SWEEPS_AWAY;
    }
}
