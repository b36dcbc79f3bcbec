//! Functions by the node that serves them.

use std::sync::Arc;

use heliostat_abi::code::Code;
use heliostat_abi::rpc::name::THIS_NODE;
use heliostat_abi::rpc::{FunctionName, RpcRequest};
use heliostat_client::ControlError;

use super::uses::Use;
use super::{Function, RpcError, Shared, OWN_USER};

/// Functions of one node of the cluster. Clones are the same.
#[derive(Clone)]
pub struct NodeRpc {
    pub(crate) shared: Arc<Shared>,
    pub(crate) node: u32,
}

impl NodeRpc {
    pub(crate) fn new(shared: Arc<Shared>, node: u32) -> NodeRpc {
        NodeRpc { shared, node }
    }

    /// Returns the function of this name there, among those of this process's user.
    ///
    /// # Errors
    /// As [`Rpc::find`](super::Rpc::find), of that node (`OnNode`), which may also be not joined
    /// (`Unreachable`).
    pub fn find(&self, name: &str) -> Result<Function, RpcError> {
        self.find_of(OWN_USER, name)
    }

    /// The same, among those of another user.
    ///
    /// # Errors
    /// As `find`.
    pub fn find_of(&self, user: u32, name: &str) -> Result<Function, RpcError> {
        let name = FunctionName::parse(name).map_err(RpcError::Name)?;
        let asked = RpcRequest::Find { user, node: self.node, name };
        let info = self.shared.uses.ask(Use::Calls, &self.shared.control, &asked);
        let info = info.map_err(|error| on_node(self.node, error))?;
        Ok(Function::new(self.shared.clone(), asked, info))
    }
}

/// An error about what is on a node.
pub(crate) fn on_node(node: u32, error: RpcError) -> RpcError {
    let is_ours = matches!(
        error,
        RpcError::Name(_)
            | RpcError::TooLong { .. }
            | RpcError::Busy { .. }
            | RpcError::Unanswered(super::Unanswered::ControlGone)
            | RpcError::OnNode { .. }
            | RpcError::Mapping(_)
            | RpcError::Link(_)
    );
    if node == THIS_NODE || is_ours {
        return error;
    }
    RpcError::OnNode { node, error: Box::new(error) }
}

/// Whether a node is not joined, or did not answer.
pub(crate) fn is_unreachable(error: &RpcError) -> bool {
    matches!(error, RpcError::Control(ControlError::Refused { code: Code::Unreachable, .. }))
}
