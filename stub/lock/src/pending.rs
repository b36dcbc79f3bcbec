//! A claim that may still wait for its turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::lock::{Event, Outcome};
use heliostat_abi::name::ObjectId;

use crate::held::Held;
use crate::opened::{Opened, Patience};
use crate::LockError;

/// A place in a line. Dropped, it is given up; what it has got is given back.
pub struct Pending {
    opened: Arc<Opened>,
    ticket: ObjectId,
    state: State,
}

enum State {
    Waiting,
    Granted(Held),
    Over,
}

impl Pending {
    pub(crate) fn new(opened: Arc<Opened>, event: Event) -> Result<Pending, LockError> {
        let state = match event.outcome {
            Outcome::Queued => State::Waiting,
            outcome => State::Granted(Held::new(opened.clone(), event.ticket, outcome)?),
        };
        Ok(Pending { opened, ticket: event.ticket, state })
    }

    /// Whether it has its place in the line still, as far as this process has been told.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    /// Waits for its turn. Blocks.
    ///
    /// # Errors
    /// `Gone` when the session or the control plane ends; nothing is held then.
    pub fn wait(self) -> Result<Held, LockError> {
        self.wait_until(None)?.ok_or(LockError::Corrupt)
    }

    /// The same, for `limit` at most; the place is given up then, and `None` returned.
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_within(self, limit: Duration) -> Result<Option<Held>, LockError> {
        self.wait_until(Patience::Within(limit).deadline())
    }

    pub(crate) fn wait_until(
        mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<Held>, LockError> {
        if let State::Granted(held) = std::mem::replace(&mut self.state, State::Over) {
            return Ok(Some(held));
        }
        let shared = &self.opened.shared;
        let outcome = match shared.waits.wait(&shared.control, self.ticket, deadline)? {
            None => shared.waits.give_up(&shared.control, self.ticket)?,
            told => told,
        };
        outcome.map(|outcome| Held::new(self.opened.clone(), self.ticket, outcome)).transpose()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let shared = &self.opened.shared;
        if !self.is_waiting() || !shared.control.is_own() {
            return;
        }
        // What it has got meanwhile is given back as any other.
        if let Ok(Some(outcome)) = shared.waits.give_up(&shared.control, self.ticket) {
            let _ = Held::new(self.opened.clone(), self.ticket, outcome).map(drop);
        }
    }
}
