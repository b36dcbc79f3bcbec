//! One request of the memory service and its answer, in the session that the handles belong to.

use heliostat_abi::memory::{Granted, MemoryReply, MemoryRequest};
use heliostat_abi::session::record::Reply;
use heliostat_base::fd::OwnedFd;
use heliostat_client::{ControlError, OwnSession};

use super::MemoryError;

/// What a session is asked of this service.
pub(crate) trait AskMemory {
    /// Asks for what is answered with a handle.
    fn grant(&self, request: &MemoryRequest) -> Result<Granted, MemoryError>;

    /// Asks for what has an answer of its own.
    fn ask_own(
        &self,
        request: &MemoryRequest,
        fds: &[i32],
    ) -> Result<(MemoryReply, Vec<OwnedFd>), MemoryError>;

    /// Asks for what is only done.
    fn tell(&self, request: &MemoryRequest, fds: &[i32]) -> Result<(), MemoryError>;
}

impl AskMemory for OwnSession {
    fn grant(&self, request: &MemoryRequest) -> Result<Granted, MemoryError> {
        match self.ask_own(request, &[])? {
            (MemoryReply::Granted(granted), _) => Ok(granted),
            _ => Err(MemoryError::Corrupt),
        }
    }

    fn ask_own(
        &self,
        request: &MemoryRequest,
        fds: &[i32],
    ) -> Result<(MemoryReply, Vec<OwnedFd>), MemoryError> {
        match self.ask(request.encode(), fds).map_err(MemoryError::Control)? {
            (Reply::Own(own), fds) => {
                let reply = MemoryReply::decode(&own).map_err(|_| MemoryError::Corrupt)?;
                Ok((reply, fds))
            }
            (reply, _) => Err(refused(&reply)),
        }
    }

    fn tell(&self, request: &MemoryRequest, fds: &[i32]) -> Result<(), MemoryError> {
        match self.ask(request.encode(), fds).map_err(MemoryError::Control)? {
            (Reply::Done, _) => Ok(()),
            (reply, _) => Err(refused(&reply)),
        }
    }
}

fn refused(reply: &Reply) -> MemoryError {
    MemoryError::Control(ControlError::from(reply))
}
