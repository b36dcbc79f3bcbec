//! A handle of this node's session on a region of another node, which decides.

use heliostat_abi::memory::peer::PeerHandle;
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Elsewhere, Granted, Via};

/// A handle on a region of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Which node.
    pub node: u64,
    /// By which link it was granted: with that it ends.
    pub link: u64,
    /// The handle there.
    pub there: PeerHandle,
    /// The region, by its identity there.
    pub region: ObjectId,
    /// What it allows.
    pub rights: Rights,
    /// The user that it was granted to there.
    pub user: u32,
    /// Whether as to a restricted program.
    pub is_restricted: bool,
    /// The node was lost.
    pub is_lost: bool,
}

/// All handles on regions of other nodes.
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
