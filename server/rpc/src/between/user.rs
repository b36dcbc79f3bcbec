//! Users of other nodes here: what they may call, and what waits for them.

use std::collections::HashSet;

use heliostat_abi::name::ObjectId;
use heliostat_server_node::PeerNode;

use crate::waiting::Waiting;

/// A user of another node.
pub(crate) struct User {
    pub peer: PeerNode,
    /// Who, by that node's word.
    pub user: u32,
    /// What it may call.
    pub may: HashSet<ObjectId>,
    /// Its calls in line.
    pub waiting: Waiting,
}

/// Where a call of another node is.
#[derive(Clone, Copy)]
pub(crate) enum Named {
    /// In line.
    InLine(ObjectId),
    /// A server has received it.
    Open(ObjectId),
}
