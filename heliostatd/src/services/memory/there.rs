//! What is elsewhere, as it is told here: granted handles, refusals, and who stands for several nodes.

use heliostat_abi::code::Code;
use heliostat_abi::memory::{Granted, MemoryReply};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Bound;
use heliostat_server_node::{LinkId, NodeId, PeerNode};
use heliostat_service_memory::Remote;

use super::requests::reply;
use crate::answer::Answer;
use crate::refused::Refused;

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
        Code::Full => Refused { code, limit, bound },
        Code::BadRecord | Code::BadState | Code::NotFound => code.into(),
        Code::Denied | Code::Stale | Code::Unwilling => code.into(),
        _ => Code::Unreachable.into(),
    }
}
