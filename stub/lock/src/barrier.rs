//! Barriers: participants wait for each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::lock::{Event, LockRequest, Outcome};

use crate::opened::{Opened, Patience};
use crate::{LockError, LockId};

/// All participants have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// Which time that was, from 1 on.
    pub generation: u64,
    /// How many had arrived before this one: one of them had 0.
    pub index: u32,
}

/// A barrier. Whoever has it open is counted on: when one of them dies, it is broken until somebody
/// resets it.
pub struct Barrier {
    pub(crate) opened: Arc<Opened>,
}

impl Barrier {
    /// Arrives, and waits until all have. Blocks.
    ///
    /// # Errors
    /// `Broken` when a participant has died or given up, or somebody reset it; `Gone` when the session
    /// or the control plane ends; a limit on what is waited for.
    pub fn wait(&self) -> Result<Passed, LockError> {
        self.arrive(Patience::Always)?.ok_or(LockError::Corrupt)
    }

    /// The same for `limit` at most; then `None`, and the barrier is broken for the others.
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_within(&self, limit: Duration) -> Result<Option<Passed>, LockError> {
        self.arrive(Patience::Within(limit))
    }

    /// Makes it whole. Who waits has `Broken`.
    ///
    /// # Errors
    /// The control plane says no, or is gone.
    pub fn reset(&self) -> Result<(), LockError> {
        let request = LockRequest::Reset { handle: self.opened.handle };
        self.opened.shared.control.tell(&request, &[])
    }

    /// Returns its identity, as of a lock.
    pub fn id(&self) -> LockId {
        self.opened.lock
    }

    fn arrive(&self, patience: Patience) -> Result<Option<Passed>, LockError> {
        let (shared, deadline) = (&self.opened.shared, patience.deadline());
        let request = LockRequest::Arrive { handle: self.opened.handle };
        let event = shared.waits.begin(&shared.control, &request)?;
        match event.outcome {
            Outcome::Queued => self.await_others(event, deadline)?.map(passed).transpose(),
            outcome => passed(outcome).map(Some),
        }
    }

    fn await_others(
        &self,
        event: Event,
        deadline: Option<Instant>,
    ) -> Result<Option<Outcome>, LockError> {
        let shared = &self.opened.shared;
        match shared.waits.wait(&shared.control, event.ticket, deadline)? {
            None => shared.waits.give_up(&shared.control, event.ticket),
            told => Ok(told),
        }
    }
}

fn passed(outcome: Outcome) -> Result<Passed, LockError> {
    match outcome {
        Outcome::Passed { generation, index } => Ok(Passed { generation, index }),
        Outcome::Broken { generation, why } => Err(LockError::Broken { generation, why }),
        _ => Err(LockError::Corrupt),
    }
}
