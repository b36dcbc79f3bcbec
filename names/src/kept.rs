//! What was asked for, kept for a moment: a program that lists a folder looks at each name in it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::NameFault;

/// An answer and its time.
pub(crate) struct Kept<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Kept<T> {
    /// Returns the answer if it is not older than this.
    pub(crate) fn younger(&self, than: Duration) -> Option<Arc<T>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(at, _)| at.elapsed() < than).map(|(_, answer)| answer.clone())
    }

    /// Returns the answer if it is not older than this, or else asks. Several that ask at once ask
    /// each: nobody waits for another's answer.
    pub(crate) fn of(
        &self,
        than: Duration,
        ask: impl FnOnce() -> Result<T, NameFault>,
    ) -> Result<Arc<T>, NameFault> {
        if let Some(answer) = self.younger(than) {
            return Ok(answer);
        }
        // The time before, so that nothing that happened meanwhile counts as seen.
        let at = Instant::now();
        let answer = Arc::new(ask()?);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, answer.clone()));
        Ok(answer)
    }
}
