//! Which functions there are.

use heliostat_abi::rpc::limits::FUNCTIONS_MAX;
use heliostat_abi::rpc::name::THIS_NODE;
use heliostat_abi::rpc::reply::NO_MORE;
use heliostat_abi::rpc::{ListedFunction, RpcReply, RpcRequest};

use super::node::on_node;
use super::{NodeRpc, Rpc, RpcError, OWN_USER};
use crate::ask::AskRpc;

impl Rpc {
    /// Returns the functions that this process's user may see and whose names begin so; with an empty
    /// beginning all of them. Those that come or go meanwhile may be among them or not.
    ///
    /// # Errors
    /// The control plane says no, or is gone.
    pub fn list(&self, beginning: &str) -> Result<Vec<ListedFunction>, RpcError> {
        self.list_of(OWN_USER, beginning)
    }

    /// The same of one user's functions.
    ///
    /// # Errors
    /// As `list`.
    pub fn list_of(&self, user: u32, beginning: &str) -> Result<Vec<ListedFunction>, RpcError> {
        self.on(THIS_NODE).list_of(user, beginning)
    }
}

impl NodeRpc {
    /// The same of this node's; of another one those of this process's user alone.
    ///
    /// # Errors
    /// As [`Rpc::list`], and Unreachable.
    pub fn list(&self, beginning: &str) -> Result<Vec<ListedFunction>, RpcError> {
        self.list_of(OWN_USER, beginning)
    }

    /// The same of one user's functions.
    ///
    /// # Errors
    /// As `list`.
    pub fn list_of(&self, user: u32, beginning: &str) -> Result<Vec<ListedFunction>, RpcError> {
        self.list_all(user, beginning).map_err(|error| on_node(self.node, error))
    }

    fn list_all(&self, user: u32, beginning: &str) -> Result<Vec<ListedFunction>, RpcError> {
        let (mut found, mut from) = (Vec::new(), 0);
        while (from as usize) < FUNCTIONS_MAX {
            let (node, beginning) = (self.node, beginning.to_owned());
            let asked = match node {
                THIS_NODE => RpcRequest::List { user, from, beginning },
                node => RpcRequest::ListOn { node, user, from, beginning },
            };
            let (RpcReply::Listed { functions, next }, _) =
                self.shared.control.ask_own(&asked, &[])?
            else {
                return Err(RpcError::Corrupt);
            };
            found.extend(functions);
            if next == NO_MORE {
                break;
            }
            // Each answer goes on behind the last one, or this would not end.
            if next <= from {
                return Err(RpcError::Corrupt);
            }
            from = next;
        }
        Ok(found)
    }
}
