//! The first turn of an operation: what it asks is checked, and it gets into its line.

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::limits::MESSAGE_BYTES_MAX;
use heliostat_abi::rpc::name::THIS_NODE;
use heliostat_abi::rpc::operation::SEND_NOW;
use heliostat_abi::rpc::{CallHead, HEAD_BYTES};
use heliostat_server_loop::{Step, Turn, COST_MIN};

use super::between::There;
use super::far;
use super::function::{Line, Message};
use super::message::Role;
use super::rpcs::Rpcs;
use super::served::ServedFunction;
use super::transfer;

/// Begins an operation or goes on with it.
pub(crate) fn serve(turn: &mut Turn<'_, Rpcs>) -> Step {
    if let Some(step) = transfer::go_on(turn) {
        return step;
    }
    for call in turn.session.service.take_dropped() {
        turn.engine.service.calls.remove(call);
    }
    *turn.left -= COST_MIN;
    let Some(entry) = turn.entry() else { return Step::Over };
    let asked = entry.operation;
    if entry.flying > 0 || turn.session.service.has_its_place(turn.id.operation) {
        return Step::Over;
    }
    if matches!(asked.kind, OpKind::Reply) {
        turn.engine.service.answering.push(turn.id);
        return Step::Over;
    }
    let wanted = match asked.kind {
        OpKind::Call | OpKind::Send => Role { calls: true, serves: false },
        OpKind::Receive => Role { calls: false, serves: true },
        _ => return turn.fail(libc::EINVAL),
    };
    match find(turn, asked.object, wanted) {
        Found::Function(info) => begin(turn, &asked, &info),
        Found::There(there) => far::begin(turn, &asked, &there),
        Found::No(errno) => turn.fail(errno),
        Found::NotYet => Step::GoesOn,
    }
}

enum Found {
    Function(ServedFunction),
    /// Of another node.
    There(There),
    No(i32),
    /// The order that brings it, or the right, may be on its way: rings are looked at more often than
    /// orders.
    NotYet,
}

fn find(turn: &mut Turn<'_, Rpcs>, function: ObjectId, wanted: Role) -> Found {
    let service = &mut turn.session.service;
    let role = service.role(function);
    let may = |role: Role| (role.calls || !wanted.calls) && (role.serves || !wanted.serves);
    if !role.is_some_and(may) {
        let looks = turn.engine.looks_for_orders;
        return match service.is_none(turn.id.operation, looks) {
            true => Found::No(role.map_or(libc::EBADF, |_| libc::EACCES)),
            false => Found::NotYet,
        };
    }
    if let Some(there) = service.there.get(&function) {
        return Found::There(*there);
    }
    let known = turn.engine.service.functions.get(&function);
    known.map_or(Found::No(libc::ESTALE), |it| Found::Function(it.info))
}

fn begin(turn: &mut Turn<'_, Rpcs>, asked: &Operation, info: &ServedFunction) -> Step {
    let pieces = asked.pieces.as_slice();
    let bytes_of = |at: usize| pieces.get(at).map_or(0, |piece| piece.bytes);
    match asked.kind {
        OpKind::Call if bytes_of(1) > info.request_bytes || bytes_of(0) < info.reply_bytes => {
            turn.fail(libc::EMSGSIZE)
        }
        OpKind::Call => join(turn, info.function, Line::Calls),
        OpKind::Send if bytes_of(0) > info.request_bytes.min(MESSAGE_BYTES_MAX) => {
            turn.fail(libc::EMSGSIZE)
        }
        OpKind::Send => send(turn, asked, info),
        _ if bytes_of(0) < info.request_bytes.saturating_add(HEAD_BYTES as u32) => {
            turn.fail(libc::EMSGSIZE)
        }
        _ if asked.argument != 0 => {
            turn.engine.service.answering.push(turn.id);
            Step::Over
        }
        _ => join(turn, info.function, Line::Receivers),
    }
}

fn join(turn: &mut Turn<'_, Rpcs>, function: ObjectId, line: Line) -> Step {
    let is_new = turn.session.service.waiting.join(function, line, turn.id.operation);
    let rpcs = &mut turn.engine.service;
    if let Some(found) = rpcs.functions.get_mut(&function).filter(|_| is_new) {
        found.round(line).push_back(turn.id.seat);
    }
    rpcs.note(function);
    Step::Over
}

/// Keeps a copy of a message, if there is room; those that wait for room go first.
fn send(turn: &mut Turn<'_, Rpcs>, asked: &Operation, info: &ServedFunction) -> Step {
    let (function, id) = (info.function, turn.id);
    let bytes = asked.pieces.bytes();
    let first = turn.session.service.waiting.first(function, Line::Senders);
    let is_next = first.is_none_or(|first| first == id.operation);
    let rpcs = &mut turn.engine.service;
    let has_room = rpcs.functions.get(&function).is_some_and(|it| it.has_room(id.seat));
    if !(is_next && has_room && rpcs.may_store(info, bytes)) {
        return match asked.argument & SEND_NOW {
            0 if first == Some(id.operation) => Step::Over,
            0 => join(turn, function, Line::Senders),
            _ => turn.fail(libc::EAGAIN),
        };
    }
    let Some(who) = turn.session.service.who() else { return turn.fail(libc::EACCES) };
    let mut payload = vec![0; bytes as usize];
    let from = asked.pieces.at(0).map_or(0, |piece| piece.offset as usize);
    if turn.session.window.copy_out(from, &mut payload).is_err() {
        return turn.fail(libc::EFAULT);
    }
    *turn.left -= bytes as i64;
    let head = CallHead {
        session: turn.session.id,
        user: who.user,
        process: who.process,
        node: THIS_NODE,
        bytes: bytes as u32,
        ..CallHead::default()
    };
    rpcs.store(info.user, bytes);
    if let Some(found) = rpcs.functions.get_mut(&function) {
        found.stored.push_back(Message { seat: id.seat, head, payload });
    }
    rpcs.note(function);
    turn.end(0)
}
