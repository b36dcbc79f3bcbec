//! One request of the service and its answer, in the session that the functions belong to.

use heliostat_abi::rpc::{FunctionInfo, RpcReply, RpcRequest};
use heliostat_abi::session::record::Reply;
use heliostat_base::fd::OwnedFd;
use heliostat_client::{ControlError, OwnSession};

use super::RpcError;

/// What a session is asked of this service.
pub(crate) trait AskRpc {
    /// Asks for what is answered with a function.
    fn grant(&self, request: &RpcRequest) -> Result<FunctionInfo, RpcError>;

    /// Asks for what has an answer of its own.
    fn ask_own(
        &self,
        request: &RpcRequest,
        fds: &[i32],
    ) -> Result<(RpcReply, Vec<OwnedFd>), RpcError>;

    /// Asks for what is only done.
    fn tell(&self, request: &RpcRequest) -> Result<(), RpcError>;
}

impl AskRpc for OwnSession {
    fn grant(&self, request: &RpcRequest) -> Result<FunctionInfo, RpcError> {
        match self.ask_own(request, &[])? {
            (RpcReply::Granted(granted), _) => Ok(granted),
            _ => Err(RpcError::Corrupt),
        }
    }

    fn ask_own(
        &self,
        request: &RpcRequest,
        fds: &[i32],
    ) -> Result<(RpcReply, Vec<OwnedFd>), RpcError> {
        match self.ask(request.encode(), fds).map_err(RpcError::Control)? {
            (Reply::Own(own), fds) => {
                let reply = RpcReply::decode(&own).map_err(|_| RpcError::Corrupt)?;
                Ok((reply, fds))
            }
            (reply, _) => Err(refused(&reply)),
        }
    }

    fn tell(&self, request: &RpcRequest) -> Result<(), RpcError> {
        match self.ask(request.encode(), &[]).map_err(RpcError::Control)? {
            (Reply::Done, _) => Ok(()),
            (reply, _) => Err(refused(&reply)),
        }
    }
}

fn refused(reply: &Reply) -> RpcError {
    RpcError::Control(ControlError::from(reply))
}
