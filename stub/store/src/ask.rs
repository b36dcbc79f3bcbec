//! One request of the store service and its answer, in the session that the handles belong to.

use std::time::{Duration, Instant};

use heliostat_abi::session::record::Reply;
use heliostat_abi::store::{StoreReply, StoreRequest, Why};
use heliostat_base::fd::OwnedFd;
use heliostat_client::{ControlError, OwnSession};

use crate::StoreError;

/// How long the store may be busy so, and how soon it is asked for again.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
const BUSY_PAUSE: Duration = Duration::from_millis(1);

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

/// Asks again while the store is busy with what has ended: what a program, or an earlier session of this
/// one, still has at the device is over soon, and nobody is let in before.
pub(crate) fn when_left<T>(
    mut ask: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let begun = Instant::now();
    loop {
        let asked = ask();
        let is_busy = matches!(&asked, Err(StoreError::NotDone(no)) if no.why == Why::Busy);
        if !is_busy || begun.elapsed() > BUSY_LIMIT {
            return asked;
        }
        std::thread::sleep(BUSY_PAUSE);
    }
}
