//! What is held, until it is released.

use std::sync::Arc;

use heliostat_abi::code::Code;
use heliostat_abi::lock::{Event, LockRequest, Outcome};
use heliostat_abi::name::ObjectId;

use crate::ask::AskLock;
use crate::opened::Opened;
use crate::LockError;

/// A lock that is held, or permits of a semaphore. Dropped, it is released.
pub struct Held {
    opened: Arc<Opened>,
    ticket: ObjectId,
    token: u64,
    has_owner_died: bool,
    is_over: bool,
}

impl Held {
    pub(crate) fn new(
        opened: Arc<Opened>,
        ticket: ObjectId,
        outcome: Outcome,
    ) -> Result<Held, LockError> {
        match outcome {
            Outcome::Granted { token, has_owner_died } => {
                Ok(Held { opened, ticket, token, has_owner_died, is_over: false })
            }
            Outcome::Lost { node } => {
                Err(LockError::Unreachable { node, may_have_happened: false })
            }
            _ => Err(LockError::Corrupt),
        }
    }

    /// Returns the token: larger than that of every acquisition before, of this name and all others of
    /// the node. Whatever is written under the lock may carry it, and refuse what carries a smaller one.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Whether a holder has died in the middle of what it did, and nobody who was told so has released
    /// since: what the lock protects may be half changed. Releasing says that it is put right.
    pub fn has_owner_died(&self) -> bool {
        self.has_owner_died
    }

    /// Whether it is held still, as far as can be told now: it is not once the session or the control
    /// plane has ended, or the node that it is on is lost. Two loads, and for what is on another node a
    /// question to the control plane of this one. What is true may not be a moment later; that is what
    /// tokens are for.
    pub fn is_held(&self) -> bool {
        let control = &self.opened.shared.control;
        if !control.stands() {
            return false;
        }
        let Some(_) = self.opened.node else { return true };
        // What is granted cannot be cancelled any more: the answer says how it stands.
        let stands = control.event(&LockRequest::Cancel { ticket: self.ticket });
        matches!(stands, Ok(Some(Event { outcome: Outcome::Granted { .. }, .. })))
    }

    /// Releases it.
    ///
    /// # Errors
    /// `Gone`: it was lost before. The next holder may have begun. `Unreachable`: its node is lost, and it
    /// was lost with that; or the node has not answered, and it is released as soon as that is told.
    pub fn release(mut self) -> Result<(), LockError> {
        self.is_over = true;
        let told = self.opened.shared.control.tell(&self.request(), &[]);
        match told {
            Err(error) if error.refusal() == Some(Code::Revoked) => Err(LockError::Gone),
            told => told.map_err(|error| error.of_node(self.opened.node)),
        }
    }

    fn request(&self) -> LockRequest {
        LockRequest::Release { ticket: self.ticket, untouched: false }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let control = &self.opened.shared.control;
        if !self.is_over && control.is_own() {
            // Where it cannot be said, the session has ended, and all that it held.
            let _ = control.tell(&self.request(), &[]);
        }
    }
}
