//! A claim that may still wait for its turn.

use std::time::{Duration, Instant};

use crate::held::Held;
use crate::opened::Patience;
use crate::waiting::Waiting;
use crate::LockError;

/// A place in a line. Dropped, it is given up; what it has got is given back.
pub struct Pending {
    waiting: Waiting,
}

impl Pending {
    pub(crate) fn new(waiting: Waiting) -> Pending {
        Pending { waiting }
    }

    /// Whether its turn has come, as far as this process has been told.
    pub fn is_granted(&self) -> bool {
        self.waiting.is_told()
    }

    /// Waits for its turn, for `limit` at most, and keeps its place. Blocks. Says whether its turn has
    /// come: then `wait` returns at once.
    ///
    /// # Errors
    /// `Gone` when the session or the control plane ends; nothing is held then.
    pub fn look_within(&mut self, limit: Duration) -> Result<bool, LockError> {
        self.waiting.wait_until(Patience::Within(limit).deadline())
    }

    /// Waits for its turn. Blocks.
    ///
    /// # Errors
    /// As `look_within`.
    pub fn wait(self) -> Result<Held, LockError> {
        self.wait_until(None)?.ok_or(LockError::Corrupt)
    }

    /// The same, for `limit` at most; the place is given up then, and `None` returned.
    ///
    /// # Errors
    /// As `look_within`.
    pub fn wait_within(self, limit: Duration) -> Result<Option<Held>, LockError> {
        self.wait_until(Patience::Within(limit).deadline())
    }

    pub(crate) fn wait_until(
        mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<Held>, LockError> {
        self.waiting.wait_until(deadline)?;
        let (opened, ticket) = (self.waiting.opened.clone(), self.waiting.ticket);
        let outcome = self.waiting.take()?;
        outcome.map(|outcome| Held::new(opened, ticket, outcome)).transpose()
    }
}
