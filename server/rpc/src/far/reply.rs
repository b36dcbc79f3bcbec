//! Replies to calls of other nodes, and servers that end before they reply.
//!
//! A reply is heard when it is on its way and nobody has said that its caller left: the server does not
//! wait for a message there and back. Where its bytes find no room it waits, as long as that node takes
//! any.

use heliostat_abi::cluster::Class;
use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::operation::{call_of, REPLY_FAILED};
use heliostat_abi::rpc::peer::{FarReply, PeerMessage};
use heliostat_server_loop::{OperationId, Sessions};
use heliostat_server_node::LinkId;

use super::wake::wake_at;
use crate::between::STALL_NS;
use crate::ending::fail;
use crate::rpcs::Rpcs;

/// Answers a call of another node: whether somebody hears it; none where it waits for room, or the
/// answering has ended.
pub(crate) fn reply(
    sessions: &mut Sessions<Rpcs>,
    answerer: OperationId,
    asked: &Operation,
    ((to, class), call, reply_bytes): ((LinkId, Class), ObjectId, u32),
) -> Option<bool> {
    let piece = asked.pieces.as_slice().get(usize::from(asked.kind == OpKind::Receive));
    let piece = piece.copied().unwrap_or_default();
    if piece.bytes > reply_bytes {
        fail(sessions, answerer, libc::EMSGSIZE);
        return None;
    }
    let (session, engine) = sessions.at(answerer.seat)?;
    let rpcs = &mut engine.service;
    let open = call_of(asked.argument);
    let Some(link) = rpcs.links.get_mut(&to) else {
        rpcs.end_call(open);
        return Some(false);
    };
    if !link.has_room_for_reply(class, u64::from(piece.bytes)) {
        return stall(sessions, answerer, ((to, class), call, open));
    }
    let mut payload = vec![0; piece.bytes as usize];
    if session.window.copy_out(piece.offset as usize, &mut payload).is_err() {
        fail(sessions, answerer, libc::EFAULT);
        return None;
    }
    let how = if asked.offset == REPLY_FAILED { FarReply::No } else { FarReply::Done };
    let message = PeerMessage::Reply { call, how };
    if !link.reply(rpcs.tell.as_ref(), (class, call), message, payload) {
        return stall(sessions, answerer, ((to, class), call, open));
    }
    rpcs.end_call(open);
    Some(true)
}

/// A reply waits for room, or is given up where that node has taken nothing for long.
fn stall(
    sessions: &mut Sessions<Rpcs>,
    answerer: OperationId,
    ((to, class), call, open): ((LinkId, Class), ObjectId, ObjectId),
) -> Option<bool> {
    let (now_ns, rpcs) = (sessions.engine.now_ns, &mut sessions.engine.service);
    let link = rpcs.links.get_mut(&to)?;
    let until_ns = link.heard_ns.saturating_add(STALL_NS);
    if now_ns >= until_ns {
        rpcs.end_call(open);
        rpcs.note_to((to, class), PeerMessage::Reply { call, how: FarReply::ServerEnded });
        return Some(false);
    }
    link.stalled.push_back(answerer);
    let until_ns = link.held_until_ns().map_or(until_ns, |held_ns| held_ns.min(until_ns));
    wake_at(sessions, until_ns);
    None
}
