//! A function of another node that a session of this one has found. Its node decides.

use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::FunctionInfo;
use heliostat_service_grant::{Elsewhere, Granted, Via};

/// A function of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Which node.
    pub node: u64,
    /// By which link it was granted: with that it ends.
    pub link: u64,
    /// What the user is there.
    pub user_there: ObjectId,
    /// What it is, by its identity there.
    pub info: FunctionInfo,
    /// The user that it was granted to there.
    pub user: u32,
    /// The node was lost.
    pub is_lost: bool,
}

/// All functions of other nodes that sessions of this node have.
pub type Remotes = Elsewhere<Remote>;

impl Granted for Remote {
    fn via(&self) -> Via {
        Via { node: self.node, link: self.link }
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn lose(&mut self) {
        self.is_lost = true;
    }
}
