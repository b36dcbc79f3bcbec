//! One request of the lock service and its answer, in the session that handles and tickets belong to.

use heliostat_abi::lock::{Event, LockReply, LockRequest};
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::process::pid;
use heliostat_client::session::{self, Standing};
use heliostat_client::ControlError;

use crate::LockError;

/// The session, of the process that greeted.
pub(crate) struct Control {
    standing: Standing,
    pid: i32,
}

impl Control {
    pub(crate) fn new(standing: Standing) -> Self {
        Self { standing, pid: pid() }
    }

    /// Whether it is that session, in this process.
    pub(crate) fn is(&self, epoch: u64) -> bool {
        self.is_own() && self.standing.epoch == epoch
    }

    /// Whether this process greeted.
    pub(crate) fn is_own(&self) -> bool {
        self.pid == pid()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.standing.epoch
    }

    /// Whether the session stands. Two loads.
    pub(crate) fn stands(&self) -> bool {
        let node = &self.standing.node;
        node.is_kept() && node.session(self.standing.id) == State::Active
    }

    /// Asks for how a ticket stands; `None` where there is no more to say than that it is done.
    pub(crate) fn event(&self, request: &LockRequest) -> Result<Option<Event>, LockError> {
        match self.ask(request, &[])? {
            Some(LockReply::Outcome(event)) => Ok(Some(event)),
            None => Ok(None),
            Some(_) => Err(LockError::Corrupt),
        }
    }

    /// Asks for what is only done.
    pub(crate) fn tell(&self, request: &LockRequest, fds: &[i32]) -> Result<(), LockError> {
        match self.ask(request, fds)? {
            None => Ok(()),
            Some(_) => Err(LockError::Corrupt),
        }
    }

    /// Asks; `None` where it is done.
    pub(crate) fn ask(
        &self,
        request: &LockRequest,
        fds: &[i32],
    ) -> Result<Option<LockReply>, LockError> {
        if !self.is_own() {
            return Err(LockError::Forked);
        }
        let request = Request::Own(request.encode());
        // In the next session the same handle is something else.
        match session::ask_in(self.standing.epoch, &request, fds)?.0 {
            Reply::Done => Ok(None),
            Reply::Own(own) => LockReply::decode(&own).map(Some).map_err(|_| LockError::Corrupt),
            reply => Err(ControlError::from(&reply).into()),
        }
    }
}
