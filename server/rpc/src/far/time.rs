//! What time brings to calls between nodes, and the end of a node.

use heliostat_abi::rpc::peer::PeerAnswer;
use heliostat_server_loop::Sessions;
use heliostat_server_node::PeerNode;

use super::away;
use super::users::end_far;
use super::wake::set_wake;
use crate::between::{AwayCall, STALL_NS};
use crate::ending::fail;
use crate::rpcs::Rpcs;

/// Time went by: ends what waits too long, and sends again where nothing was sent for a moment.
pub(crate) fn pass_time(sessions: &mut Sessions<Rpcs>) {
    let now_ns = sessions.engine.now_ns;
    let rpcs = &mut sessions.engine.service;
    if rpcs.wake_ns.is_none_or(|wake_ns| now_ns < wake_ns) {
        return;
    }
    let is_late = |deadline_ns: Option<u64>| deadline_ns.is_some_and(|at| at <= now_ns);
    let late = rpcs.far.iter().filter(|(_, far)| is_late(far.deadline_ns)).map(|(id, _)| id);
    let late: Vec<_> = late.collect();
    for (to, link) in &mut rpcs.links {
        if link.end_holds(now_ns) {
            rpcs.ways.insert(*to);
        }
        // Those that still find no room say when to look again.
        rpcs.answering.extend(link.stalled.drain(..));
    }
    late.into_iter().for_each(|far| end_far(sessions, far, PeerAnswer::TimedOut));
    let rpcs = &sessions.engine.service;
    let deadlines = rpcs.far.iter().filter_map(|(_, far)| far.deadline_ns);
    let holds = rpcs.links.values().filter_map(|link| link.held_until_ns());
    let stalls = rpcs.links.values().filter(|link| !link.stalled.is_empty());
    let stalls = stalls.map(|link| link.heard_ns.saturating_add(STALL_NS));
    let next_ns = deadlines.chain(holds).chain(stalls).min();
    set_wake(sessions, next_ns);
}

/// A node is lost: calls there end, and what its users have here is void.
pub(crate) fn lose(sessions: &mut Sessions<Rpcs>, peer: PeerNode) {
    let rpcs = &mut sessions.engine.service;
    let Some(mut link) = rpcs.links.remove(&peer.link) else { return };
    rpcs.answering.extend(link.stalled.drain(..));
    let is_its = |call: &AwayCall| call.link == peer.link;
    let its = rpcs.away.iter().filter(|(_, call)| is_its(call)).map(|(call, _)| call);
    let its: Vec<_> = its.collect();
    rpcs.lose_users(peer.link);
    for call in its {
        away::end(sessions, call, -i64::from(libc::ECONNRESET));
    }
    for id in link.lanes.take_all() {
        fail(sessions, id, libc::EHOSTDOWN);
    }
}
