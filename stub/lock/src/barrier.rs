//! Barriers: participants wait for each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::lock::{LockRequest, Outcome};

use crate::ask::AskLock;
use crate::opened::{Opened, Patience};
use crate::waiting::Waiting;
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

/// An arrival at a barrier. Dropped before all have arrived, it breaks the barrier for the others.
pub struct Arrival {
    waiting: Waiting,
}

impl Barrier {
    /// Arrives, and waits until all have. Blocks.
    ///
    /// # Errors
    /// `Broken` when a participant has died or given up, or somebody reset it; `Gone` when the session
    /// or the control plane ends; `Unreachable` when the barrier's node is lost; a limit on what is
    /// waited for.
    pub fn wait(&self) -> Result<Passed, LockError> {
        self.arrive()?.wait_until(None)?.ok_or(LockError::Corrupt)
    }

    /// The same for `limit` at most; then `None`, and the barrier is broken for the others.
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_within(&self, limit: Duration) -> Result<Option<Passed>, LockError> {
        self.arrive()?.wait_until(Patience::Within(limit).deadline())
    }

    /// Arrives, to wait or to give up later.
    ///
    /// # Errors
    /// As `wait`, but `Broken` is said by the arrival.
    pub fn arrive(&self) -> Result<Arrival, LockError> {
        let shared = &self.opened.shared;
        let request = LockRequest::Arrive { handle: self.opened.handle };
        let event = shared.waits.begin(&shared.control, &request);
        let event = event.map_err(|error| error.of_node(self.opened.node))?;
        Ok(Arrival { waiting: Waiting::new(self.opened.clone(), event) })
    }

    /// Makes it whole. Who waits has `Broken`.
    ///
    /// # Errors
    /// The control plane says no, or is gone.
    pub fn reset(&self) -> Result<(), LockError> {
        let request = LockRequest::Reset { handle: self.opened.handle };
        let told = self.opened.shared.control.tell(&request, &[]);
        told.map_err(|error| error.of_node(self.opened.node))
    }

    /// Returns its identity, as of a lock.
    pub fn id(&self) -> LockId {
        self.opened.lock
    }
}

impl Arrival {
    /// Waits until all have arrived, for `limit` at most, and has arrived still. Blocks. Says whether
    /// it is over: then `wait` returns at once.
    ///
    /// # Errors
    /// `Gone` when the session or the control plane ends.
    pub fn look_within(&mut self, limit: Duration) -> Result<bool, LockError> {
        self.waiting.wait_until(Patience::Within(limit).deadline())
    }

    /// Waits until all have arrived. Blocks.
    ///
    /// # Errors
    /// As `Barrier::wait`.
    pub fn wait(self) -> Result<Passed, LockError> {
        self.wait_until(None)?.ok_or(LockError::Corrupt)
    }

    /// The same, for `limit` at most; then `None`, and the barrier is broken for the others.
    ///
    /// # Errors
    /// As `Barrier::wait`.
    pub fn wait_within(self, limit: Duration) -> Result<Option<Passed>, LockError> {
        self.wait_until(Patience::Within(limit).deadline())
    }

    fn wait_until(mut self, deadline: Option<Instant>) -> Result<Option<Passed>, LockError> {
        self.waiting.wait_until(deadline)?;
        self.waiting.take()?.map(passed).transpose()
    }
}

fn passed(outcome: Outcome) -> Result<Passed, LockError> {
    match outcome {
        Outcome::Passed { generation, index } => Ok(Passed { generation, index }),
        Outcome::Broken { generation, why } => Err(LockError::Broken { generation, why }),
        // It may have been the last that all waited for.
        Outcome::Lost { node } => Err(LockError::Unreachable { node, may_have_happened: true }),
        _ => Err(LockError::Corrupt),
    }
}
