//! One request of the service and its answer, in the session that the functions belong to.

use heliostat_abi::rpc::{FunctionInfo, RpcReply, RpcRequest};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::fd::OwnedFd;
use heliostat_base::process::pid;
use heliostat_client::session::{self, Standing};
use heliostat_client::ControlError;

use super::RpcError;

/// The session, of the process that greeted.
pub(crate) struct Control {
    standing: Standing,
    pid: i32,
}

impl Control {
    pub(crate) fn new(standing: Standing) -> Self {
        Self { standing, pid: pid() }
    }

    /// Whether this process greeted, and is no child of a fork of it.
    pub(crate) fn is_own(&self) -> bool {
        self.pid == pid()
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Asks for what is answered with a function.
    pub(crate) fn grant(&self, request: &RpcRequest) -> Result<FunctionInfo, RpcError> {
        match self.ask(request, &[])? {
            (RpcReply::Granted(info), _) => Ok(info),
            _ => Err(RpcError::Corrupt),
        }
    }

    /// Asks for what has an answer of its own.
    pub(crate) fn ask(
        &self,
        request: &RpcRequest,
        fds: &[i32],
    ) -> Result<(RpcReply, Vec<OwnedFd>), RpcError> {
        match self.exchange(request, fds)? {
            (Reply::Own(own), fds) => {
                let reply = RpcReply::decode(&own).map_err(|_| RpcError::Corrupt)?;
                Ok((reply, fds))
            }
            (reply, _) => Err(refused(&reply)),
        }
    }

    /// Asks for what is only done.
    pub(crate) fn tell(&self, request: &RpcRequest) -> Result<(), RpcError> {
        match self.exchange(request, &[])? {
            (Reply::Done, _) => Ok(()),
            (reply, _) => Err(refused(&reply)),
        }
    }

    fn exchange(
        &self,
        request: &RpcRequest,
        fds: &[i32],
    ) -> Result<(Reply, Vec<OwnedFd>), RpcError> {
        if !self.is_own() {
            return Err(RpcError::Control(ControlError::SessionEnded));
        }
        let request = Request::Own(request.encode());
        // In the next session the same function is something else.
        session::ask_in(self.standing.epoch, &request, fds).map_err(RpcError::Control)
    }
}

fn refused(reply: &Reply) -> RpcError {
    RpcError::Control(ControlError::from(reply))
}
