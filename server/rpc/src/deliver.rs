//! Matches what waits for a function with who is free to serve it, and puts it into their windows.

use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::name::THIS_NODE;
use heliostat_abi::rpc::operation::{token_of, NOBODY_WAITED};
use heliostat_abi::rpc::{CallHead, HEAD_BYTES};
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::{copy_part, OperationId, Sessions};

use super::ending::fail;
use super::far;
use super::function::{Function, Line, Message};
use super::lines::{next, put_back};
use super::place::{place_of, Met};
use super::rpcs::{Active, Caller, OpenCall, Rpcs};
use super::transfer::{Transfer, AT_ONCE_BYTES};

/// Matches the lines of the functions that have changed.
pub(crate) fn match_all(sessions: &mut Sessions<Rpcs>) {
    // What one gives room to may be another's: each round takes messages out of their lines, or is
    // the last.
    while !sessions.engine.service.changed.is_empty() {
        for id in std::mem::take(&mut sessions.engine.service.changed) {
            let Some(mut function) = sessions.engine.service.functions.remove(&id) else {
                continue;
            };
            match_lines(sessions, &mut function);
            sessions.engine.service.functions.insert(id, function);
        }
    }
}

fn match_lines(sessions: &mut Sessions<Rpcs>, function: &mut Function) {
    while function.may_have(Line::Calls) || !function.stored.is_empty() {
        let Some(receiver) = next(sessions, function, Line::Receivers) else { break };
        if function.takes_message(function.may_have(Line::Calls)) {
            let Some(message) = function.stored.pop_front() else { continue };
            sessions.engine.service.release(function.info.user, &message);
            hand_over(sessions, receiver, &message);
            continue;
        }
        let Some(caller) = next(sessions, function, Line::Calls) else {
            put_back(sessions, function, Line::Receivers, receiver);
            continue;
        };
        let reply_bytes = function.info.reply_bytes;
        let met = match sessions.engine.service.users.contains_key(&caller.seat) {
            true => far::connect(sessions, caller.operation, receiver, reply_bytes),
            false => connect(sessions, caller, receiver),
        };
        match met {
            Met::Both => {}
            Met::NoCaller => put_back(sessions, function, Line::Receivers, receiver),
            Met::NoReceiver => put_back(sessions, function, Line::Calls, caller),
        }
    }
    wake_senders(sessions, function);
}

/// Lets those go on that wait for room and find some, one of each session.
fn wake_senders(sessions: &mut Sessions<Rpcs>, function: &mut Function) {
    let name = function.info.function;
    if !function.may_have(Line::Senders) {
        return;
    }
    let mut free = (function.info.queue as usize).saturating_sub(function.stored.len());
    for _ in 0..function.round(Line::Senders).len() {
        if free == 0 {
            return;
        }
        let Some(seat) = function.round(Line::Senders).pop_front() else { return };
        if sessions.engine.service.users.contains_key(&seat) {
            free -= usize::from(far::wake_sender(sessions, function, seat));
            continue;
        }
        let Some((session, engine)) = sessions.at(seat) else { continue };
        let Some(operation) = session.service.waiting.first(name, Line::Senders) else {
            // Its flag goes with its place in the round.
            session.service.waiting.take(name, Line::Senders);
            continue;
        };
        function.round(Line::Senders).push_back(seat);
        let bytes = session.operations.get(operation).map_or(0, |it| it.operation.pieces.bytes());
        if function.has_room(seat) && engine.service.may_store(&function.info, bytes) {
            sessions.resume(OperationId { seat, operation });
            free -= 1;
        }
    }
}

/// Gives a receiver a message.
fn hand_over(sessions: &mut Sessions<Rpcs>, receiver: OperationId, message: &Message) {
    let Some((session, engine)) = sessions.at(receiver.seat) else { return };
    let operation = receiver.operation;
    let Some(entry) = session.operations.get(operation) else { return };
    let place = entry.operation.pieces.at(0).map_or(0, |piece| piece.offset as usize);
    let flags = if session.service.is_unheard(operation) { NOBODY_WAITED } else { 0 };
    let head = CallHead { flags, ..message.head };
    let window = &session.window;
    let put = window
        .copy_in(place, &head.encode())
        .and_then(|()| window.copy_in(place + HEAD_BYTES, &message.payload));
    let result = match put {
        Ok(()) => (HEAD_BYTES + message.payload.len()) as i64,
        Err(_) => -i64::from(libc::EFAULT),
    };
    session.end(engine, operation, result);
    engine.service.unrung.push(receiver.seat);
}

/// What a call brings to its receiver.
struct Brought {
    open: OpenCall,
    /// The caller's window.
    source: Arc<SharedMapping>,
    head: CallHead,
    /// Where its payload lies in the caller's window.
    from: u64,
}

/// Gives a receiver a call: at once where its payload is short, else by the caller's own turns.
fn connect(sessions: &mut Sessions<Rpcs>, caller: OperationId, receiver: OperationId) -> Met {
    let Some(place) = place_of(sessions, receiver) else { return Met::NoReceiver };
    let Some(brought) = brought(sessions, caller, receiver) else {
        fail(sessions, caller, libc::EACCES);
        return Met::NoCaller;
    };
    let Brought { open, source, mut head, from } = brought;
    let Ok(call) = sessions.engine.service.calls.insert(open) else {
        fail(sessions, caller, libc::EAGAIN);
        return Met::NoCaller;
    };
    (head.token, head.flags) = (token_of(call), place.flags);
    // A place in a window was checked when the record was decoded.
    let _ = place.window.copy_in(place.at as usize, &head.encode());
    let (into, bytes) = (place.at + HEAD_BYTES as u64, u64::from(head.bytes));
    if head.bytes <= AT_ONCE_BYTES {
        let (from, into) = ((&*source, from as usize), (&*place.window, into as usize));
        let _ = copy_part(from, into, bytes as usize, bytes);
        delivered(sessions, (caller, call), receiver, head.bytes);
        return Met::Both;
    }
    let transfer = Transfer { from, window: place.window, into, bytes, done: 0 };
    carry(sessions, Active { owner: caller, partner: receiver, call, is_reply: false }, transfer);
    Met::Both
}

/// Has an operation's own turns carry bytes to its partner, which cannot end meanwhile.
pub(crate) fn carry(sessions: &mut Sessions<Rpcs>, active: Active, transfer: Transfer) {
    let Active { owner, partner, .. } = active;
    if let Some((session, _)) = sessions.at(partner.seat) {
        session.operations.get_mut(partner.operation).into_iter().for_each(|it| it.flying += 1);
    }
    if let Some((session, engine)) = sessions.at(owner.seat) {
        session.service.transfers.insert(owner.operation, transfer);
        engine.service.active.push(active);
    }
    sessions.resume(owner);
}

fn brought(
    sessions: &mut Sessions<Rpcs>,
    caller: OperationId,
    receiver: OperationId,
) -> Option<Brought> {
    let (session, engine) = sessions.at(caller.seat)?;
    let entry = session.operations.get(caller.operation)?;
    let pieces = entry.operation.pieces.as_slice();
    let payload = pieces.get(1).copied().unwrap_or_default();
    let left_us = entry.deadline_ns.map_or(0, |at| at.saturating_sub(engine.now_ns) / 1000 + 1);
    let who = session.service.who()?;
    let head = CallHead {
        session: session.id,
        user: who.user,
        process: who.process,
        node: THIS_NODE,
        bytes: payload.bytes,
        left_us,
        ..CallHead::default()
    };
    let source = session.window.clone();
    let place = pieces.first().copied().unwrap_or_default();
    let open = OpenCall {
        caller: Caller::Here { id: caller, window: source.clone(), place },
        server: receiver.seat,
        is_delivered: false,
        is_answered: false,
    };
    Some(Brought { open, source, head, from: payload.offset })
}

/// A call has arrived: its receiver hears of it, and from now on it may have had an effect.
pub(crate) fn delivered(
    sessions: &mut Sessions<Rpcs>,
    (caller, call): (OperationId, ObjectId),
    receiver: OperationId,
    bytes: u32,
) {
    if let Some((session, engine)) = sessions.at(caller.seat) {
        session.service.deliver(caller.operation, call);
        engine.service.calls.get_mut(call).into_iter().for_each(|open| open.is_delivered = true);
    }
    let Some((session, engine)) = sessions.at(receiver.seat) else { return };
    session.end(engine, receiver.operation, HEAD_BYTES as i64 + i64::from(bytes));
    engine.service.unrung.push(receiver.seat);
}
