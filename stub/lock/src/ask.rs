//! One request of the lock service and its answer, in the session that handles and tickets belong to.

use heliostat_abi::lock::{Event, LockReply, LockRequest};
use heliostat_abi::session::record::Reply;
use heliostat_client::{ControlError, OwnSession};

use crate::LockError;

/// What a session is asked of this service.
pub(crate) trait AskLock {
    /// Asks for how a ticket stands; `None` where there is no more to say than that it is done.
    fn event(&self, request: &LockRequest) -> Result<Option<Event>, LockError>;

    /// Asks for what is only done.
    fn tell(&self, request: &LockRequest, fds: &[i32]) -> Result<(), LockError>;

    /// Asks; `None` where it is done.
    fn ask_own(&self, request: &LockRequest, fds: &[i32]) -> Result<Option<LockReply>, LockError>;
}

impl AskLock for OwnSession {
    fn event(&self, request: &LockRequest) -> Result<Option<Event>, LockError> {
        match self.ask_own(request, &[])? {
            Some(LockReply::Outcome(event)) => Ok(Some(event)),
            None => Ok(None),
            Some(_) => Err(LockError::Corrupt),
        }
    }

    fn tell(&self, request: &LockRequest, fds: &[i32]) -> Result<(), LockError> {
        match self.ask_own(request, fds)? {
            None => Ok(()),
            Some(_) => Err(LockError::Corrupt),
        }
    }

    fn ask_own(&self, request: &LockRequest, fds: &[i32]) -> Result<Option<LockReply>, LockError> {
        if !self.is_own() {
            return Err(LockError::Forked);
        }
        match self.ask(request.encode(), fds)?.0 {
            Reply::Done => Ok(None),
            Reply::Own(own) => LockReply::decode(&own).map(Some).map_err(|_| LockError::Corrupt),
            reply => Err(ControlError::from(&reply).into()),
        }
    }
}
