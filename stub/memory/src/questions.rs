//! The owner is asked who may map its regions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::code::Code;
use heliostat_abi::memory::{MemoryReply, MemoryRequest, Question, Rights};
use heliostat_base::bell::Bell;

use super::{MemoryError, Shared};
use crate::ask::AskMemory;

/// Questions about one region of this process, which nobody else answers. Who asks waits for half a
/// second, and takes silence for a no.
pub struct Questions {
    shared: Arc<Shared>,
    bell: Bell,
}

impl Questions {
    pub(crate) fn new(shared: Arc<Shared>, bell: Bell) -> Self {
        Self { shared, bell }
    }

    /// Waits for a question, `limit` at most; `None` when there was none.
    ///
    /// # Errors
    /// The control plane says no, or is gone.
    pub fn next(&self, limit: Duration) -> Result<Option<Question>, MemoryError> {
        // A time that no clock reaches is never.
        let deadline = Instant::now().checked_add(limit);
        loop {
            if let Some(question) = self.take()? {
                return Ok(Some(question));
            }
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let left_ms = left.map(|it| it.as_millis().clamp(1, u128::from(u32::MAX)) as u32);
            self.bell.wait(left_ms).map_err(MemoryError::Event)?;
            // What rings after this is found by the look after it. The ring may be of a question that
            // was found before it was heard.
            self.bell.drain();
        }
    }

    /// Answers: what may be done; `Rights::NONE` is a no.
    ///
    /// # Errors
    /// `Control` with `Code::NotFound` when nobody waits for the answer any more.
    pub fn answer(&self, question: &Question, rights: Rights) -> Result<(), MemoryError> {
        let answer = MemoryRequest::Answer { question: question.question, rights };
        self.shared.control.tell(&answer, &[])
    }

    fn take(&self) -> Result<Option<Question>, MemoryError> {
        match self.shared.control.ask_own(&MemoryRequest::NextAsked, &[]) {
            Ok((MemoryReply::Asked(question), _)) => Ok(Some(question)),
            Ok(_) => Err(MemoryError::Corrupt),
            Err(error) if error.refusal() == Some(Code::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
