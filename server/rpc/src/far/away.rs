//! This node's calls to functions of others: sent in turn, ended by what the other node says, or by its
//! end.
//!
//! ```text
//! in lane --room--> sent --received--> received --Reply--> ended
//!   | its time, cancelled     | the node says so (time, Leave)   | its time, cancelled: Leave
//!   v not delivered           v not delivered                    v unanswered
//! ```

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::limits::MESSAGE_BYTES_MAX;
use heliostat_abi::rpc::operation::SEND_NOW;
use heliostat_abi::rpc::peer::{FarCall, FarReply, PeerAnswer, PeerMessage};
use heliostat_abi::rpc::CALL_FAILED;
use heliostat_server_loop::{OperationId, PerSession, Sessions, Step, Turn};
use heliostat_server_node::LinkId;

use super::wake::wake_at;
use crate::between::{
    Away, AwayCall, FarAnswered, FarAsked, Lined, NoAnswer, There, What, AWAY_PER_NODE_MAX,
    MESSAGE_COST,
};
use crate::ending::fail;
use crate::rpcs::Rpcs;

/// How long after its time a call that is in line there waits for that node's word. The node knows its
/// time too, so that this is for one that breaks the protocol.
const GRACE_NS: u64 = 1_000_000_000;
/// When a call ends that waits for ever: whoever made it is gone long before.
const EVER_NS: u64 = 1 << 60;

/// An operation on a function of another node goes into its lane.
pub(crate) fn begin(turn: &mut Turn<'_, Rpcs>, asked: &Operation, there: &There) -> Step {
    let pieces = asked.pieces.as_slice();
    let bytes_of = |at: usize| pieces.get(at).map_or(0, |piece| piece.bytes);
    let info = there.function;
    let fits = match asked.kind {
        OpKind::Call => bytes_of(1) <= info.request_bytes && bytes_of(0) >= info.reply_bytes,
        _ => bytes_of(0) <= info.request_bytes.min(MESSAGE_BYTES_MAX),
    };
    if !fits {
        return turn.fail(libc::EMSGSIZE);
    }
    let to = there.peer.link;
    let Some(link) = turn.engine.service.links.get_mut(&to) else {
        return turn.fail(libc::EHOSTDOWN);
    };
    link.lanes.push((info.function, there.class), turn.id);
    turn.session.service.away.insert(turn.id.operation, Away::InLane);
    *turn.left -= asked.pieces.bytes() as i64;
    turn.engine.service.look_at(to);
    Step::Over
}

/// Sends what waits, on the ways that have changed.
pub(crate) fn pump(sessions: &mut Sessions<Rpcs>) {
    for to in std::mem::take(&mut sessions.engine.service.ways) {
        let rpcs = &mut sessions.engine.service;
        let Some(link) = rpcs.links.get_mut(&to) else { continue };
        link.send_notes(rpcs.tell.as_ref());
        pump_one(sessions, to);
        let link = sessions.engine.service.links.get(&to);
        if let Some(until_ns) = link.and_then(|link| link.held_until_ns()) {
            wake_at(sessions, until_ns);
        }
    }
}

fn pump_one(sessions: &mut Sessions<Rpcs>, to: LinkId) {
    // Lanes without room, one after the other: behind the last of all there is nothing to send.
    let mut in_vain = 0;
    loop {
        let Some(link) = sessions.engine.service.links.get_mut(&to) else { return };
        let waiting = link.lanes.waiting();
        if in_vain >= waiting || link.away >= AWAY_PER_NODE_MAX {
            return;
        }
        let Some((lane, id)) = link.lanes.next() else { return };
        if send(sessions, to, lane, id) {
            in_vain = 0;
        } else {
            in_vain += 1;
            let link = sessions.engine.service.links.get_mut(&to);
            link.into_iter().for_each(|link| link.lanes.push_first(lane, id));
        }
    }
}

/// Sends a call that waited; false when there is no room for it.
fn send(
    sessions: &mut Sessions<Rpcs>,
    to: LinkId,
    (function, class): Lined,
    id: OperationId,
) -> bool {
    let Some((session, engine)) = sessions.at(id.seat) else { return true };
    let Some(entry) = session.operations.get_mut(id.operation) else { return true };
    let (asked, deadline_ns) = (entry.operation, entry.deadline_ns);
    let there = session.service.there.get(&asked.object).filter(|it| it.peer.link == to);
    let (Some(there), Some(who)) = (there.copied(), session.service.who()) else {
        fail(sessions, id, libc::ESTALE);
        return true;
    };
    let is_one_way = asked.kind == OpKind::Send;
    let piece = asked.pieces.as_slice().get(usize::from(!is_one_way)).copied().unwrap_or_default();
    let cost = u64::from(piece.bytes) + MESSAGE_COST;
    let rpcs = &mut engine.service;
    let Some(link) = rpcs.links.get_mut(&to) else { return true };
    if link.is_held(class) || !link.lanes.has_room((function, class), cost) {
        return false;
    }
    let mut payload = vec![0; piece.bytes as usize];
    if session.window.copy_out(piece.offset as usize, &mut payload).is_err() {
        fail(sessions, id, libc::EFAULT);
        return true;
    }
    let away = AwayCall { id, link: to, class, is_one_way };
    let Ok(call) = rpcs.away.insert(away) else { return false };
    let left_us = deadline_ns.map_or(0, |at| (at.saturating_sub(engine.now_ns) / 1000).max(1));
    let message = PeerMessage::Call(FarCall {
        call,
        user: there.user,
        function,
        session: session.id,
        process: who.process,
        is_one_way,
        is_now: is_one_way && asked.argument & SEND_NOW != 0,
        left_us,
    });
    let until_ns = deadline_ns.map_or(EVER_NS, |at| at.saturating_add(GRACE_NS));
    let what = What::Call { call, function, class, cost };
    if !link.send(rpcs.tell.as_ref(), message, payload, (what, until_ns)) {
        rpcs.away.remove(call);
        return false;
    }
    link.lanes.left((function, class), cost);
    link.away += 1;
    entry.flying += 1;
    session.service.away.insert(id.operation, Away::Sent(call));
    true
}

/// Another node has answered a message of this loop, or will not.
pub(crate) fn answered(sessions: &mut Sessions<Rpcs>, answered: FarAnswered) {
    let FarAnswered { link: to, what, answer } = answered;
    let (now_ns, rpcs) = (sessions.engine.now_ns, &mut sessions.engine.service);
    if let Some(link) = rpcs.links.get_mut(&to) {
        link.heard_ns = now_ns;
        if answer == Err(NoAnswer::Full) {
            link.hold(what.class());
        }
        match what {
            What::Call { function, class, cost, .. } => link.lanes.came((function, class), cost),
            What::Reply { class, cost, .. } => link.reply_came(class, cost),
            What::Note(..) => {}
        }
        rpcs.answering.extend(link.stalled.drain(..));
    }
    match what {
        What::Call { call, function, class, .. } => {
            call_answered(sessions, (to, (function, class)), call, answer);
        }
        What::Reply { call, class, .. } if answer.is_err() => {
            // It ran, and its reply is not to be had any more. A node that is lost knows.
            let ended = PeerMessage::Reply { call, how: FarReply::ServerEnded };
            rpcs.note_to((to, class), ended);
        }
        What::Reply { .. } => {}
        What::Note(class, message) if answer == Err(NoAnswer::Full) => {
            rpcs.note_to((to, class), message);
        }
        What::Note(_, PeerMessage::Leave { call }) => left(sessions, call),
        What::Note(..) => {}
    }
    sessions.engine.service.look_at(to);
}

fn call_answered(
    sessions: &mut Sessions<Rpcs>,
    (to, lane): (LinkId, Lined),
    call: ObjectId,
    answer: Result<PeerAnswer, NoAnswer>,
) {
    let Some(AwayCall { id, is_one_way, .. }) = sessions.engine.service.away.get(call).copied()
    else {
        return;
    };
    let verdict = land(sessions, id);
    let Some((session, engine)) = sessions.at(id.seat) else { return };
    match answer {
        Ok(PeerAnswer::Done) if !is_one_way => {
            session.service.away.insert(id.operation, Away::Received(call));
            if let Some(errno) = verdict {
                let (errno, name) = (session.service.cut_short(id.operation, errno), session.id);
                fail(sessions, id, errno);
                sessions.engine.service.cut.push((name, id.operation));
            }
        }
        Err(NoAnswer::Full) if verdict.is_none() => {
            engine.service.end_away(call);
            session.service.away.insert(id.operation, Away::InLane);
            let link = engine.service.links.get_mut(&to);
            link.into_iter().for_each(|link| link.lanes.push_first(lane, id));
        }
        _ => end(sessions, call, result_of(answer, verdict)),
    }
}

/// What the operation ends with, whose call was not received.
fn result_of(answer: Result<PeerAnswer, NoAnswer>, verdict: Option<i32>) -> i64 {
    let errno = match answer {
        Ok(PeerAnswer::Done) => return 0,
        Ok(PeerAnswer::Gone | PeerAnswer::NotGranted) | Err(NoAnswer::Refused) => libc::ESTALE,
        Ok(PeerAnswer::Full) => libc::EAGAIN,
        Ok(PeerAnswer::TimedOut) | Err(NoAnswer::NotSentInTime) => libc::ETIMEDOUT,
        Ok(PeerAnswer::Left) | Err(NoAnswer::Full) => verdict.unwrap_or(libc::ECANCELED),
        Ok(PeerAnswer::TooLong) => libc::EMSGSIZE,
        Ok(PeerAnswer::Malformed | PeerAnswer::NobodyWaits) | Err(NoAnswer::Broken) => {
            libc::EREMOTEIO
        }
        Err(NoAnswer::NotSent) => libc::EHOSTDOWN,
        Err(NoAnswer::Lost) => libc::ECONNRESET,
        Err(NoAnswer::Late) => libc::ETIME,
    };
    -i64::from(errno)
}

/// Nothing works on an operation any more: how it was to end, if it was.
fn land(sessions: &mut Sessions<Rpcs>, id: OperationId) -> Option<i32> {
    let (session, _) = sessions.at(id.seat)?;
    let entry = session.operations.get_mut(id.operation)?;
    entry.flying = entry.flying.saturating_sub(1);
    entry.verdict
}

/// A call is over: its operation ends, and the other node need not be told.
pub(crate) fn end(sessions: &mut Sessions<Rpcs>, call: ObjectId, result: i64) {
    let Some(AwayCall { id, .. }) = sessions.engine.service.end_away(call) else { return };
    let Some((session, engine)) = sessions.at(id.seat) else { return };
    session.service.away.remove(&id.operation);
    session.end(engine, id.operation, result);
    engine.service.unrung.push(id.seat);
}

/// The other node knows that nobody waits for a call. Where it has not said what became of it, it may
/// have been received.
fn left(sessions: &mut Sessions<Rpcs>, call: ObjectId) {
    if sessions.engine.service.away.get(call).is_some() {
        end(sessions, call, -i64::from(libc::EINTR));
    }
}

/// Looks after operations that were cut short: other nodes are told, and those who waited behind them
/// for room have their turn.
pub(crate) fn attend_cut(sessions: &mut Sessions<Rpcs>) {
    for (session, operation) in std::mem::take(&mut sessions.engine.service.cut) {
        let Some(seat) = sessions.seat(session) else { continue };
        let Some((found, engine)) = sessions.at(seat) else { continue };
        let rpcs = &mut engine.service;
        let id = OperationId { seat, operation };
        rpcs.links.values_mut().for_each(|link| link.lanes.forget(|other| other == id));
        found.service.take_vacated().into_iter().for_each(|function| rpcs.note(function));
        for call in found.service.take_left() {
            if let Some(away) = rpcs.end_away(call) {
                rpcs.note_to((away.link, away.class), PeerMessage::Leave { call });
            }
        }
        let verdict = found.operations.get(operation).and_then(|entry| entry.verdict);
        let Some(Away::Sent(call)) = found.service.away.get(&operation).copied() else { continue };
        // Of its time the other node knows.
        if let (Some(libc::ECANCELED), Some(away)) = (verdict, rpcs.away.get(call).copied()) {
            rpcs.note_to((away.link, away.class), PeerMessage::Leave { call });
        }
    }
}

/// A reply of another node, for whoever waits for it.
pub(crate) fn take_reply(
    sessions: &mut Sessions<Rpcs>,
    asked: &FarAsked,
    (call, how): (ObjectId, FarReply),
) -> PeerAnswer {
    let to = asked.from.peer.link;
    let away = sessions.engine.service.away.get(call).copied();
    let away = away.filter(|it| it.link == to && !it.is_one_way);
    let Some(AwayCall { id, .. }) = away else { return PeerAnswer::NobodyWaits };
    let Some((session, _)) = sessions.at(id.seat) else { return PeerAnswer::NobodyWaits };
    let Some(entry) = session.operations.get(id.operation) else { return PeerAnswer::NobodyWaits };
    let place = entry.operation.pieces.as_slice().first().copied().unwrap_or_default();
    let bytes = asked.payload.len() as u64;
    let failed = if how == FarReply::No { CALL_FAILED } else { 0 };
    let (answer, result) = match how {
        FarReply::ServerEnded if bytes == 0 => (PeerAnswer::Done, -i64::from(libc::EOWNERDEAD)),
        FarReply::Done | FarReply::No if bytes <= u64::from(place.bytes) => {
            match session.window.copy_in(place.offset as usize, &asked.payload) {
                Ok(()) => (PeerAnswer::Done, (bytes | failed) as i64),
                Err(_) => (PeerAnswer::Done, -i64::from(libc::EFAULT)),
            }
        }
        _ => (PeerAnswer::Malformed, -i64::from(libc::EREMOTEIO)),
    };
    end(sessions, call, result);
    sessions.engine.service.look_at(to);
    answer
}
