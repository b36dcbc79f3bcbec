//! Which functions there are.

use heliostat_abi::rpc::limits::FUNCTIONS_MAX;
use heliostat_abi::rpc::reply::NO_MORE;
use heliostat_abi::rpc::{ListedFunction, RpcReply, RpcRequest};

use super::{Rpc, RpcError, OWN_USER};
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
        let (mut found, mut from) = (Vec::new(), 0);
        while (from as usize) < FUNCTIONS_MAX {
            let asked = RpcRequest::List { user, from, beginning: beginning.to_owned() };
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
