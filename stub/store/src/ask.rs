//! One request of the store service and its answer, in the session that the handles belong to.

use heliostat_abi::session::record::Reply;
use heliostat_abi::store::{StoreReply, StoreRequest, Why};
use heliostat_base::fd::OwnedFd;
use heliostat_client::{ControlError, OwnSession};

use crate::StoreError;

/// What a session is asked of this service.
pub(crate) trait AskStore {
    /// Asks for what has an answer of its own; the store's no is an error.
    fn ask_store(
        &self,
        request: &StoreRequest,
        fds: &[i32],
    ) -> Result<(StoreReply, Vec<OwnedFd>), StoreError>;

    /// Asks for what is only done.
    fn tell_store(&self, request: &StoreRequest) -> Result<(), StoreError>;
}

impl AskStore for OwnSession {
    fn ask_store(
        &self,
        request: &StoreRequest,
        fds: &[i32],
    ) -> Result<(StoreReply, Vec<OwnedFd>), StoreError> {
        match outlasted(self, request, fds)? {
            (Reply::Own(own), fds) => match StoreReply::decode(&own) {
                Ok(StoreReply::NotDone(not_done)) => Err(StoreError::NotDone(not_done)),
                Ok(reply) => Ok((reply, fds)),
                Err(_) => Err(StoreError::Corrupt),
            },
            (reply, _) => Err(StoreError::Control(ControlError::from(&reply))),
        }
    }

    fn tell_store(&self, request: &StoreRequest) -> Result<(), StoreError> {
        match outlasted(self, request, &[])? {
            (Reply::Done, _) => Ok(()),
            (Reply::Own(own), _) => match StoreReply::decode(&own) {
                Ok(StoreReply::NotDone(not_done)) => Err(StoreError::NotDone(not_done)),
                _ => Err(StoreError::Corrupt),
            },
            (reply, _) => Err(StoreError::Control(ControlError::from(&reply))),
        }
    }
}

/// Asks, and goes on asking for the outcome as long as the control plane says that the change takes its
/// time: it answers each time, so that the program knows that it is there.
fn outlasted(
    session: &OwnSession,
    request: &StoreRequest,
    fds: &[i32],
) -> Result<(Reply, Vec<OwnedFd>), StoreError> {
    let mut answered = session.ask(request.encode(), fds).map_err(StoreError::Control)?;
    while is_later(&answered.0) {
        let outcome = StoreRequest::Outcome.encode();
        answered = session.ask(outcome, &[]).map_err(StoreError::Control)?;
    }
    Ok(answered)
}

fn is_later(reply: &Reply) -> bool {
    let Reply::Own(own) = reply else { return false };
    matches!(StoreReply::decode(own), Ok(StoreReply::NotDone(no)) if no.why == Why::Later)
}
