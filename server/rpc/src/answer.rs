//! Answers calls: replies into the windows of those who wait, and what becomes of those who do not.

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::operation::{call_of, REPLY_FAILED};
use heliostat_abi::rpc::CALL_FAILED;
use heliostat_server_loop::{copy_part, OperationId, Sessions};

use super::deliver::{carry, delivered};
use super::ending::fail;
use super::far;
use super::function::Line;
use super::lines::{line_up, End};
use super::rpcs::{Active, Caller, Rpcs};
use super::transfer::{Transfer, AT_ONCE_BYTES};

/// Answers what is to be answered.
pub(crate) fn answer_all(sessions: &mut Sessions<Rpcs>) {
    for answerer in std::mem::take(&mut sessions.engine.service.answering) {
        answer(sessions, answerer);
    }
}

fn answer(sessions: &mut Sessions<Rpcs>, answerer: OperationId) {
    let Some(asked) = asked(sessions, answerer) else { return };
    let call = call_of(asked.argument);
    let payload = asked.pieces.as_slice().get(usize::from(asked.kind == OpKind::Receive));
    let payload = payload.copied().unwrap_or_default();
    let open = sessions.engine.service.calls.get_mut(call);
    let open = open.filter(|it| it.server == answerer.seat && it.is_delivered && !it.is_answered);
    let Some(open) = open else { return over(sessions, answerer, &asked, false) };
    let (caller, target, place) = match &open.caller {
        Caller::Here { id, window, place } => (*id, window.clone(), *place),
        Caller::There { link, call, class, reply_bytes } => {
            let its = ((*link, *class), *call, *reply_bytes);
            if let Some(was_heard) = far::reply(sessions, answerer, &asked, its) {
                over(sessions, answerer, &asked, was_heard);
            }
            return;
        }
    };
    if payload.bytes > place.bytes {
        return fail(sessions, answerer, libc::EMSGSIZE);
    }
    let into = place.offset;
    open.is_answered = true;
    let Some((session, _)) = sessions.at(caller.seat) else {
        return over(sessions, answerer, &asked, false);
    };
    if session.operations.get(caller.operation).is_none() {
        sessions.engine.service.calls.remove(call);
        return over(sessions, answerer, &asked, false);
    }
    if payload.bytes > AT_ONCE_BYTES {
        let (from, bytes) = (payload.offset, u64::from(payload.bytes));
        let transfer = Transfer { from, window: target, into, bytes, done: 0 };
        let active = Active { owner: answerer, partner: caller, call, is_reply: true };
        return carry(sessions, active, transfer);
    }
    let Some((session, _)) = sessions.at(answerer.seat) else { return };
    let bytes = payload.bytes as usize;
    let source = (&*session.window, payload.offset as usize);
    // Both places were checked when their records were decoded.
    let _ = copy_part(source, (&target, into as usize), bytes, bytes as u64);
    answered(sessions, answerer, (caller, call), &asked);
}

fn asked(sessions: &mut Sessions<Rpcs>, id: OperationId) -> Option<Operation> {
    let (session, _) = sessions.at(id.seat)?;
    Some(session.operations.get(id.operation)?.operation)
}

/// A reply has arrived: whoever waits for it hears of it.
fn answered(
    sessions: &mut Sessions<Rpcs>,
    answerer: OperationId,
    (caller, call): (OperationId, ObjectId),
    asked: &Operation,
) {
    let bytes = asked.pieces.as_slice().get(usize::from(asked.kind == OpKind::Receive));
    let failed = if asked.offset == REPLY_FAILED { CALL_FAILED } else { 0 };
    let result = u64::from(bytes.map_or(0, |piece| piece.bytes)) | failed;
    sessions.engine.service.calls.remove(call);
    if let Some((session, engine)) = sessions.at(caller.seat) {
        session.end(engine, caller.operation, result as i64);
        engine.service.unrung.push(caller.seat);
    }
    over(sessions, answerer, asked, true);
}

/// The answering is over: a Reply ends, a Receive goes into its line.
fn over(sessions: &mut Sessions<Rpcs>, id: OperationId, asked: &Operation, was_heard: bool) {
    let Some((session, engine)) = sessions.at(id.seat) else { return };
    if asked.kind != OpKind::Receive {
        let result = if was_heard { 0 } else { -i64::from(libc::ENOENT) };
        session.end(engine, id.operation, result);
        return engine.service.unrung.push(id.seat);
    }
    if !was_heard {
        session.service.note_unheard(id.operation);
    }
    line_up(sessions, id, (asked.object, Line::Receivers), End::Back);
}

/// Ends the calls whose server has ended.
pub(crate) fn end_orphans(sessions: &mut Sessions<Rpcs>) {
    for id in std::mem::take(&mut sessions.engine.service.orphans) {
        fail(sessions, id, libc::EOWNERDEAD);
    }
}

/// Goes on with those whose bytes have arrived, and lets go of those whose other side has ended.
pub(crate) fn settle(sessions: &mut Sessions<Rpcs>) {
    let landed = std::mem::take(&mut sessions.engine.service.landed);
    for active in std::mem::take(&mut sessions.engine.service.active) {
        if landed.contains(&active.owner) {
            arrived(sessions, &active);
        } else if is_under_way(sessions, &active) {
            sessions.engine.service.active.push(active);
        } else {
            abandon(sessions, &active);
        }
    }
}

fn is_under_way(sessions: &mut Sessions<Rpcs>, active: &Active) -> bool {
    let lives = |sessions: &mut Sessions<Rpcs>, id: OperationId| {
        sessions.at(id.seat).is_some_and(|(it, _)| it.operations.get(id.operation).is_some())
    };
    lives(sessions, active.owner) && lives(sessions, active.partner)
}

fn arrived(sessions: &mut Sessions<Rpcs>, active: &Active) {
    if !is_under_way(sessions, active) {
        return abandon(sessions, active);
    }
    land(sessions, active.partner);
    let Some(asked) = asked(sessions, active.owner) else { return };
    if active.is_reply {
        return answered(sessions, active.owner, (active.partner, active.call), &asked);
    }
    let bytes = asked.pieces.as_slice().get(1).map_or(0, |piece| piece.bytes);
    delivered(sessions, (active.owner, active.call), active.partner, bytes);
}

/// Nothing is on its way to an operation any more.
fn land(sessions: &mut Sessions<Rpcs>, id: OperationId) {
    let Some((session, _)) = sessions.at(id.seat) else { return };
    if let Some(entry) = session.operations.get_mut(id.operation) {
        entry.flying = entry.flying.saturating_sub(1);
    }
}

/// One side has ended before all bytes had arrived: the other goes on as if nothing had been begun.
fn abandon(sessions: &mut Sessions<Rpcs>, active: &Active) {
    land(sessions, active.partner);
    let (owner, partner) = (active.owner, active.partner);
    if let Some((session, _)) = sessions.at(owner.seat) {
        session.service.transfers.remove(&owner.operation);
        // It has nothing to carry in a turn any more.
        session.operations.rest(owner.operation);
    }
    if active.is_reply {
        let partner_waits = asked(sessions, partner).is_some();
        if let Some(open) = sessions.engine.service.calls.get_mut(active.call) {
            // Its server may answer again.
            open.is_answered = false;
        }
        if let Some(asked) = asked(sessions, owner).filter(|_| !partner_waits) {
            over(sessions, owner, &asked, false);
        }
        return end_if_late(sessions, partner);
    }
    sessions.engine.service.calls.remove(active.call);
    rejoin(sessions, owner, Line::Calls);
    rejoin(sessions, partner, Line::Receivers);
    end_if_late(sessions, partner);
}

/// Puts an operation that has not ended back into its line, before all others of its session.
fn rejoin(sessions: &mut Sessions<Rpcs>, id: OperationId, line: Line) {
    let Some(asked) = asked(sessions, id) else { return };
    line_up(sessions, id, (asked.object, line), End::Front);
}

/// Ends an operation whose time passed, or that was cancelled, while bytes were on their way to it.
fn end_if_late(sessions: &mut Sessions<Rpcs>, id: OperationId) {
    let Some((session, _)) = sessions.at(id.seat) else { return };
    let verdict = session.operations.get(id.operation).and_then(|entry| entry.verdict);
    if let Some(errno) = verdict {
        let errno =
            heliostat_server_loop::PerSession::cut_short(&session.service, id.operation, errno);
        fail(sessions, id, errno);
    }
}
