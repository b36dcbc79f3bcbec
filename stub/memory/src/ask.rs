//! One request of the memory service and its answer, in the session that the handles belong to.

use heliostat_abi::memory::{Granted, MemoryReply, MemoryRequest};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::fd::OwnedFd;
use heliostat_base::process::pid;
use heliostat_client::session::{self, Standing};
use heliostat_client::ControlError;

use super::MemoryError;

/// The session, of the process that greeted.
pub(crate) struct Control {
    standing: Standing,
    pid: i32,
}

impl Control {
    pub(crate) fn new(standing: Standing) -> Self {
        Self { standing, pid: pid() }
    }

    /// Whether this process greeted; a child of its fork did not.
    pub(crate) fn is_own(&self) -> bool {
        self.pid == pid()
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Asks for what is answered with a handle.
    pub(crate) fn grant(&self, request: &MemoryRequest) -> Result<Granted, MemoryError> {
        match self.ask(request, &[])? {
            (MemoryReply::Granted(granted), _) => Ok(granted),
            _ => Err(MemoryError::Corrupt),
        }
    }

    /// Asks for what has an answer of its own.
    pub(crate) fn ask(
        &self,
        request: &MemoryRequest,
        fds: &[i32],
    ) -> Result<(MemoryReply, Vec<OwnedFd>), MemoryError> {
        match self.exchange(request, fds)? {
            (Reply::Own(own), fds) => {
                let reply = MemoryReply::decode(&own).map_err(|_| MemoryError::Corrupt)?;
                Ok((reply, fds))
            }
            (reply, _) => Err(refused(&reply)),
        }
    }

    /// Asks for what is only done.
    pub(crate) fn tell(&self, request: &MemoryRequest, fds: &[i32]) -> Result<(), MemoryError> {
        match self.exchange(request, fds)? {
            (Reply::Done, _) => Ok(()),
            (reply, _) => Err(refused(&reply)),
        }
    }

    fn exchange(
        &self,
        request: &MemoryRequest,
        fds: &[i32],
    ) -> Result<(Reply, Vec<OwnedFd>), MemoryError> {
        if !self.is_own() {
            // The handles are the parent's, and so is the connection.
            return Err(MemoryError::Control(ControlError::SessionEnded));
        }
        let request = Request::Own(request.encode());
        // In the next session the same handle is something else.
        session::ask_in(self.standing.epoch, &request, fds).map_err(MemoryError::Control)
    }
}

fn refused(reply: &Reply) -> MemoryError {
    MemoryError::Control(ControlError::from(reply))
}
