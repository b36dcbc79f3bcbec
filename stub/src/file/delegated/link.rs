//! One session's two rings, and whether their other end still lives.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use heliostat_abi::delegated::{
    Completion, Operation, COMPLETION_AT, COMPLETION_RECORD_BYTES, OPERATION_BYTES_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::node::State;
use heliostat_abi::record::{Reply, Request};
use heliostat_ring::doorbell::Patience;
use heliostat_ring::{
    Refresh, ReserveError, RingMemory, SpscConsumer, SpscProducer, TakeError, WaitError,
};

use super::DelegatedError;
use crate::session::{self, NodePage};

/// What a session has of the server.
pub(super) struct Link {
    pub(super) submissions: SpscProducer,
    pub(super) completions: SpscConsumer,
    /// Counts sessions of this process, as in `session::Standing`.
    pub(super) epoch: u64,
    session: ObjectId,
    node: Arc<NodePage>,
}

impl Link {
    /// Asks the control plane to serve a window.
    pub(super) fn make(window: i32, window_bytes: u64) -> Result<Link, DelegatedError> {
        debug_assert!(window_bytes > 0);
        // A session that has ended is noticed here, so that the next one is asked.
        session::check_alive();
        let asked = session::ask(&Request::Delegate, &[window]);
        let (reply, fds) = asked.map_err(DelegatedError::Control)?;
        let rings = match (reply, fds.first()) {
            (Reply::Delegated { .. }, Some(rings)) => rings.as_raw_fd(),
            (Reply::Refused { code, limit }, _) => {
                return Err(DelegatedError::Refused(code, limit))
            }
            _ => return Err(DelegatedError::Corrupt),
        };
        let standing = session::standing().map_err(DelegatedError::Control)?;
        let attach = |at| RingMemory::attach(rings, at).map_err(DelegatedError::Ring);
        let (submissions, completions) = (attach(0)?, attach(COMPLETION_AT)?);
        let end = DelegatedError::Ring;
        Ok(Link {
            submissions: submissions.spsc_producer(Refresh::Lazy).map_err(end)?,
            completions: completions.spsc_consumer(Refresh::Lazy).map_err(end)?,
            epoch: standing.epoch,
            session: standing.id,
            node: standing.node,
        })
    }

    /// Puts an operation into the ring, without ringing; false when it is full.
    pub(super) fn push(&mut self, operation: &Operation) -> Result<bool, DelegatedError> {
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = operation.encode(&mut record);
        let record = record.get(..length).ok_or(DelegatedError::Corrupt)?;
        match self.submissions.reserve(length) {
            Ok(mut slot) => {
                slot.copy_in(0, record);
                slot.commit_quiet();
                Ok(true)
            }
            Err(ReserveError::Full) => Ok(false),
            Err(_) => Err(DelegatedError::Corrupt),
        }
    }

    /// Takes a completion that is there.
    pub(super) fn pop(&mut self) -> Result<Option<Completion>, DelegatedError> {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        match self.completions.pop(&mut record) {
            Ok(COMPLETION_RECORD_BYTES) => {
                Completion::decode(&record).map(Some).ok_or(DelegatedError::Corrupt)
            }
            Err(TakeError::Empty) => Ok(None),
            _ => Err(DelegatedError::Corrupt),
        }
    }

    /// Tells the control plane that nobody needs it any more, if it still is the same one.
    pub(super) fn end(&self) {
        if session::epoch() == Some(self.epoch) {
            let _ = session::ask(&Request::EndDelegate, &[]);
        }
    }

    /// Waits for a completion.
    pub(super) fn wait(&mut self, patience: &Patience) -> Result<(), WaitError> {
        let (node, id) = (&self.node, self.session);
        let lives = || node.is_kept() && node.session(id) == State::Active;
        self.completions.wait(patience, &lives)
    }
}
