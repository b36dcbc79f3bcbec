//! A ticket that waits: kept until it has an outcome, given up when it is dropped.

use std::sync::Arc;
use std::time::Instant;

use heliostat_abi::lock::{Event, LockRequest, Outcome};
use heliostat_abi::name::ObjectId;

use crate::ask::AskLock;
use crate::opened::Opened;
use crate::LockError;

/// A ticket, from its request to its outcome.
pub(crate) struct Waiting {
    pub(crate) opened: Arc<Opened>,
    pub(crate) ticket: ObjectId,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    Told(Outcome),
    /// Somebody has taken it over, or it is lost.
    Over,
}

impl Waiting {
    /// What a request was answered with.
    pub(crate) fn new(opened: Arc<Opened>, event: Event) -> Waiting {
        let state = match event.outcome {
            Outcome::Queued => State::Waits,
            outcome => State::Told(outcome),
        };
        Waiting { opened, ticket: event.ticket, state }
    }

    /// Whether it has been told an outcome.
    pub(crate) fn is_told(&self) -> bool {
        matches!(self.state, State::Told(_))
    }

    /// Waits for its outcome until a deadline, and keeps its place. Says whether there is one.
    pub(crate) fn wait_until(&mut self, deadline: Option<Instant>) -> Result<bool, LockError> {
        if self.state != State::Waits {
            return Ok(true);
        }
        let shared = &self.opened.shared;
        match shared.waits.wait(&shared.control, self.ticket, deadline) {
            Ok(told) => {
                self.state = told.map_or(State::Waits, State::Told);
                Ok(told.is_some())
            }
            Err(error) => {
                self.state = State::Over;
                Err(error)
            }
        }
    }

    /// Its outcome, which is the caller's now. Without one its place is given up, and there is none.
    pub(crate) fn take(&mut self) -> Result<Option<Outcome>, LockError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Told(outcome) => Ok(Some(outcome)),
            State::Waits => {
                let shared = &self.opened.shared;
                let given_up = shared.waits.give_up(&shared.control, self.ticket);
                given_up.map_err(|error| error.of_node(self.opened.node))
            }
            State::Over => Err(LockError::Gone),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let control = &self.opened.shared.control;
        if self.state == State::Over || !control.is_own() {
            return;
        }
        let opened = self.opened.clone();
        if let Ok(Some(Outcome::Granted { .. })) = self.take() {
            // It was granted, and nobody wants it: whoever died before is told to the next one.
            let release = LockRequest::Release { ticket: self.ticket, untouched: true };
            let _ = opened.shared.control.tell(&release, &[]);
        }
    }
}
