//! What the thing called would answer, if it did one call after the other.

use std::hash::Hash;

mod lock;
mod semaphore;
mod word;

pub use lock::{LockAnswer, LockModel, LockOperation};
pub use semaphore::{SemaphoreAnswer, SemaphoreModel, SemaphoreOperation};
pub use word::{WordModel, WordOperation};

/// A sequential model.
pub trait Model {
    /// What is asked.
    type Operation: Clone;
    /// What is answered.
    type Answer: Clone;
    /// What lasts from one call to the next.
    type State: Clone + Eq + Hash;

    /// The state before the first call.
    fn begin(&self) -> Self::State;

    /// The state after a call of a process that gave this answer; `None` where it could not. Without an
    /// answer, every one that could have been given leads to the same state, or the call is not
    /// possible now.
    fn step(
        &self,
        state: &Self::State,
        process: u64,
        operation: &Self::Operation,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;
}
