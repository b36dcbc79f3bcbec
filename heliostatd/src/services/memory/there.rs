//! What is elsewhere, as it is told here: granted handles, refusals, and who stands for several nodes.

use heliostat_abi::code::Code;
use heliostat_abi::memory::{Granted, MemoryReply};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Bound;
use heliostat_server_memory::{is_replicated, MemoryOrder, There};
use heliostat_server_node::{LinkId, NodeId, PeerNode};
use heliostat_service_memory::Remote;
use tracing::debug;

use super::requests::reply;
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::Refused;
use crate::services::cluster::via;

impl Daemon {
    /// A node is lost: handles there lead nowhere from now on.
    pub(super) fn lose_remotes(&mut self, peer: PeerNode) {
        let memory = &mut self.services.memory;
        let lost = memory.across.remotes.lose(via(peer));
        debug!(node = %peer.node, lost, "handles on a node that is lost");
        if let Some(loops) = &memory.loops {
            loops.tell_all(|| MemoryOrder::LosePeer(peer));
        }
    }

    /// Tells the loop that has just begun to serve a session what it holds on other nodes.
    pub(super) fn open_remotes(&mut self, session: ObjectId) {
        let memory = &self.services.memory;
        for (handle, remote) in memory.across.remotes.of_session(session) {
            // Of one that is lost the loop knows no handle: the control plane says why.
            let peer = match is_replicated(LinkId(remote.link)) {
                true => replicated_peer(remote),
                false => match self.node_of(remote) {
                    Some(peer) => peer,
                    None => continue,
                },
            };
            let there = There { peer, handle: remote.there };
            let classes = memory.across.classes.get(&(session, handle));
            if let Some(class) = classes.map(|of| of.chosen) {
                memory.tell(session, MemoryOrder::Class { session, handle, class });
            }
            memory.tell(session, MemoryOrder::HoldThere { session, handle, there });
        }
        let all = memory.across.remotes.of_session(session);
        let replicated = all.filter(|(_, remote)| is_replicated(LinkId(remote.link)));
        let replicated: Vec<_> = replicated.map(|(handle, it)| (handle, it.there)).collect();
        for (handle, there) in replicated {
            self.limit_replicated(session, handle, there);
        }
    }
}

/// What stands for the nodes that have such a region.
pub(super) fn replicated_peer(remote: &Remote) -> PeerNode {
    PeerNode { node: NodeId(remote.node), incarnation: 0, link: LinkId(remote.link) }
}

/// The answer to a session about a region of another node.
pub(super) fn granted_there(peer: PeerNode, handle: ObjectId, granted: Granted) -> Answer {
    let there = Granted {
        handle,
        direct: false,
        node: Some(peer.node.0),
        from: 0,
        pieces_all: 0,
        pieces: Vec::new(),
        ..granted
    };
    reply(&MemoryReply::Granted(there))
}

/// What another node's refusal is to a session of this one. Only what says something about regions goes
/// on: nothing was revoked there, and whether that control plane fails, or is of another age, is its own
/// matter. `BadRecord` is what a region cannot have, such as a length.
pub(super) fn passed_on(code: Code, limit: u64, bound: Bound) -> Refused {
    match code {
        Code::Full | Code::Moved => Refused { code, limit, bound },
        Code::BadRecord | Code::BadState | Code::NotFound => code.into(),
        Code::Denied | Code::Stale | Code::Unwilling => code.into(),
        _ => Code::Unreachable.into(),
    }
}
