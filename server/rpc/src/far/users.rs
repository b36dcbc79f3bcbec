//! Users of other nodes here: what they may call, and their calls that are in line or were received.
//!
//! To a function's lines a user of a node is a caller as a session is: its name stands in the rounds
//! among those of sessions, and its calls have turns as theirs.

use std::collections::HashSet;

use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::limits::MESSAGE_BYTES_MAX;
use heliostat_abi::rpc::operation::token_of;
use heliostat_abi::rpc::peer::{FarCall, PeerAnswer, PeerMessage};
use heliostat_abi::rpc::{CallHead, HEAD_BYTES};
use heliostat_server_loop::{OperationId, Sessions};
use heliostat_server_node::{AskId, LinkId, PeerNode};

use super::away::take_reply;
use super::wake::wake_at;
use crate::between::{FarAsked, FarLine, Named, User, AWAY_PER_NODE_MAX, MESSAGE_COST};
use crate::function::{Function, Line, Message};
use crate::place::{place_of, Met};
use crate::rpcs::{Caller, OpenCall, Rpcs};
use crate::served::ServedFunction;
use crate::waiting::Waiting;

/// Bytes of calls of one node that are in line here: more than a node that keeps to the protocol sends.
const LINE_BYTES_PER_NODE_MAX: u64 = 12 << 20;

/// A user of another node may call a function from now on, or may not any more.
pub(crate) fn grant(
    sessions: &mut Sessions<Rpcs>,
    name: ObjectId,
    (peer, user): (PeerNode, u32),
    (function, may_call): (ObjectId, bool),
) {
    let rpcs = &mut sessions.engine.service;
    if may_call {
        let made = || User { peer, user, may: HashSet::new(), waiting: Waiting::default() };
        rpcs.users.entry(name).or_insert_with(made).may.insert(function);
        return;
    }
    end_all_of(sessions, name, function, &Line::ALL);
    let rpcs = &mut sessions.engine.service;
    let Some(found) = rpcs.users.get_mut(&name) else { return };
    found.may.remove(&function);
    found.waiting.forget(function);
    if found.may.is_empty() {
        rpcs.users.remove(&name);
    }
    rpcs.functions.get_mut(&function).into_iter().for_each(|it| it.forget(name));
}

/// Ends what a user of another node has in some lines of a function.
pub(crate) fn end_all_of(
    sessions: &mut Sessions<Rpcs>,
    name: ObjectId,
    function: ObjectId,
    lines: &[Line],
) {
    let Some(user) = sessions.engine.service.users.get_mut(&name) else { return };
    for far in user.waiting.take_all(function, lines) {
        end_far(sessions, far, PeerAnswer::Gone);
    }
}

/// Ends a call that is in line: its node hears why.
pub(crate) fn end_far(sessions: &mut Sessions<Rpcs>, far: ObjectId, answer: PeerAnswer) {
    let rpcs = &mut sessions.engine.service;
    let Some(line) = rpcs.far.remove(far) else { return };
    if let Some(user) = rpcs.users.get_mut(&line.call.user) {
        if let Some((function, Line::Senders)) = user.waiting.ended(far) {
            // Those behind it may find room.
            rpcs.note(function);
        }
    }
    rpcs.out_of_line(&line, true);
    rpcs.answer_node(line.ask, answer);
}

/// Another node tells this loop something, and is answered, now or later.
pub(crate) fn accept(sessions: &mut Sessions<Rpcs>, asked: FarAsked) {
    let ask = asked.from.ask;
    let answer = match asked.message {
        PeerMessage::Call(call) => accept_call(sessions, asked, call),
        PeerMessage::Leave { .. } if !asked.payload.is_empty() => Some(PeerAnswer::Malformed),
        PeerMessage::Leave { call } => {
            leave(sessions, (asked.from.peer.link, call));
            Some(PeerAnswer::Done)
        }
        PeerMessage::Reply { call, how } => Some(take_reply(sessions, &asked, (call, how))),
    };
    if let Some(answer) = answer {
        sessions.engine.service.answer_node(ask, answer);
    }
}

/// The caller of a call does not wait any more.
fn leave(sessions: &mut Sessions<Rpcs>, name: (LinkId, ObjectId)) {
    match sessions.engine.service.names.get(&name).copied() {
        Some(Named::InLine(far)) => end_far(sessions, far, PeerAnswer::Left),
        Some(Named::Open(call)) => drop(sessions.engine.service.end_call(call)),
        None => {}
    }
}

/// Takes a call into its line; an answer where that is what becomes of it.
fn accept_call(
    sessions: &mut Sessions<Rpcs>,
    asked: FarAsked,
    call: FarCall,
) -> Option<PeerAnswer> {
    let now_ns = sessions.engine.now_ns;
    let FarAsked { from, payload, .. } = asked;
    let to = from.peer.link;
    let rpcs = &mut sessions.engine.service;
    let user = rpcs.users.get(&call.user).filter(|it| it.peer.link == to);
    if !user.is_some_and(|user| user.may.contains(&call.function)) {
        return Some(PeerAnswer::NotGranted);
    }
    let Some(info) = rpcs.functions.get(&call.function).map(|it| it.info) else {
        return Some(PeerAnswer::Gone);
    };
    let most = if call.is_one_way { MESSAGE_BYTES_MAX } else { u32::MAX };
    if payload.len() as u64 > u64::from(info.request_bytes.min(most)) {
        return Some(PeerAnswer::TooLong);
    }
    // The same call once more, or one whose number its node has given twice.
    if rpcs.names.contains_key(&(to, call.call)) {
        return Some(PeerAnswer::Malformed);
    }
    let cost = payload.len() as u64 + MESSAGE_COST;
    let Some(link) = rpcs.links.get_mut(&to) else { return Some(PeerAnswer::NotGranted) };
    if link.calls >= AWAY_PER_NODE_MAX || link.bytes + cost > LINE_BYTES_PER_NODE_MAX {
        return Some(PeerAnswer::Full);
    }
    let left_ns = call.left_us.saturating_mul(1000);
    let deadline_ns = (left_ns > 0).then(|| now_ns.saturating_add(left_ns));
    let (ask, class) = (from.ask, from.class);
    let line = FarLine { ask, class, link: to, call, payload, deadline_ns };
    if call.is_one_way {
        if rpcs.users.get(&call.user)?.waiting.first(call.function, Line::Senders).is_none()
            && may_store(rpcs, &info, &line)
        {
            store(rpcs, &info, line);
            return Some(PeerAnswer::Done);
        }
        if call.is_now {
            return Some(PeerAnswer::Full);
        }
    }
    line_up(sessions, line, cost)
}

fn line_up(sessions: &mut Sessions<Rpcs>, line: FarLine, cost: u64) -> Option<PeerAnswer> {
    let (to, deadline_ns, FarCall { call, user, function, is_one_way, .. }) =
        (line.link, line.deadline_ns, line.call);
    let rpcs = &mut sessions.engine.service;
    let Ok(far) = rpcs.far.insert(line) else { return Some(PeerAnswer::Full) };
    rpcs.names.insert((to, call), Named::InLine(far));
    if let Some(link) = rpcs.links.get_mut(&to) {
        link.calls += 1;
        link.bytes += cost;
    }
    let line = if is_one_way { Line::Senders } else { Line::Calls };
    let is_new = rpcs.users.get_mut(&user)?.waiting.join(function, line, far);
    if let Some(found) = rpcs.functions.get_mut(&function).filter(|_| is_new) {
        found.round(line).push_back(user);
    }
    rpcs.note(function);
    deadline_ns.into_iter().for_each(|at_ns| wake_at(sessions, at_ns));
    None
}

fn may_store(rpcs: &mut Rpcs, info: &ServedFunction, line: &FarLine) -> bool {
    let has_room = rpcs.functions.get(&info.function).is_some_and(|it| it.has_room(line.call.user));
    has_room && rpcs.may_store(info, line.payload.len() as u64)
}

/// Keeps a message for whoever receives it.
fn store(rpcs: &mut Rpcs, info: &ServedFunction, line: FarLine) {
    let Some(head) = rpcs.head_of(&line) else { return };
    let seat = line.call.user;
    rpcs.store(info.user, line.payload.len() as u64);
    if let Some(found) = rpcs.functions.get_mut(&info.function) {
        found.stored.push_back(Message { seat, head, payload: line.payload });
    }
    rpcs.note(info.function);
}

/// Lets the first message of a user go into line that waits for room; false where it finds none.
pub(crate) fn wake_sender(
    sessions: &mut Sessions<Rpcs>,
    function: &mut Function,
    name: ObjectId,
) -> bool {
    let rpcs = &mut sessions.engine.service;
    let info = function.info;
    let Some(user) = rpcs.users.get_mut(&name) else { return false };
    let Some(far) = user.waiting.first(info.function, Line::Senders) else {
        user.waiting.take(info.function, Line::Senders);
        return false;
    };
    function.round(Line::Senders).push_back(name);
    let bytes = rpcs.far.get(far).map_or(0, |line| line.payload.len() as u64);
    if !function.has_room(name) || !rpcs.may_store(&info, bytes) {
        return false;
    }
    let Some(line) = rpcs.far.remove(far) else { return false };
    rpcs.users.get_mut(&name).into_iter().for_each(|user| _ = user.waiting.ended(far));
    rpcs.out_of_line(&line, true);
    rpcs.answer_node(line.ask, PeerAnswer::Done);
    let Some(head) = rpcs.head_of(&line) else { return false };
    rpcs.store(info.user, bytes);
    function.stored.push_back(Message { seat: name, head, payload: line.payload });
    rpcs.note(info.function);
    true
}

/// Gives a receiver a call of another node.
pub(crate) fn connect(
    sessions: &mut Sessions<Rpcs>,
    far: ObjectId,
    receiver: OperationId,
    reply_bytes: u32,
) -> Met {
    let Some(place) = place_of(sessions, receiver) else { return Met::NoReceiver };
    let rpcs = &mut sessions.engine.service;
    let Some(line) = rpcs.far.remove(far) else { return Met::NoCaller };
    rpcs.out_of_line(&line, false);
    let FarLine { link, class, .. } = line;
    let caller = Caller::There { link, call: line.call.call, class, reply_bytes };
    let (server, is_delivered, is_answered) = (receiver.seat, true, false);
    let open = OpenCall { caller, server, is_delivered, is_answered };
    let head = rpcs.head_of(&line);
    let (Some(head), Ok(call)) = (head, rpcs.calls.insert(open)) else {
        rpcs.forget_name(line.link, line.call.call);
        rpcs.answer_node(line.ask, PeerAnswer::Full);
        return Met::NoCaller;
    };
    rpcs.names.insert((line.link, line.call.call), Named::Open(call));
    let left_ns = line.deadline_ns.map(|at| at.saturating_sub(sessions.engine.now_ns));
    let left_us = left_ns.map_or(0, |left_ns| (left_ns / 1000).max(1));
    let head = CallHead { token: token_of(call), flags: place.flags, left_us, ..head };
    let at = place.at as usize;
    let put = place.window.copy_in(at, &head.encode());
    let put = put.and_then(|()| place.window.copy_in(at + HEAD_BYTES, &line.payload));
    let result = match put {
        Ok(()) => (HEAD_BYTES + line.payload.len()) as i64,
        // The place was checked when the record was decoded.
        Err(_) => -i64::from(libc::EFAULT),
    };
    sessions.engine.service.answer_node(line.ask, PeerAnswer::Done);
    let Some((session, engine)) = sessions.at(receiver.seat) else { return Met::Both };
    session.end(engine, receiver.operation, result);
    engine.service.unrung.push(receiver.seat);
    Met::Both
}

impl Rpcs {
    /// Answers another node, which asked a while ago.
    pub(crate) fn answer_node(&self, ask: AskId, answer: PeerAnswer) {
        if let Some(replies) = &self.replies {
            replies.reply(ask, answer.encode().to_vec(), Vec::new());
        }
    }

    /// A call of another node is in line no more, and, where it has ended, is here no more.
    fn out_of_line(&mut self, line: &FarLine, has_ended: bool) {
        if let Some(link) = self.links.get_mut(&line.link) {
            link.bytes = link.bytes.saturating_sub(line.payload.len() as u64 + MESSAGE_COST);
        }
        if has_ended {
            self.forget_name(line.link, line.call.call);
        }
    }

    /// A call of another node is here no more.
    pub(crate) fn forget_name(&mut self, to: LinkId, call: ObjectId) {
        if self.names.remove(&(to, call)).is_some() {
            let link = self.links.get_mut(&to);
            link.into_iter().for_each(|link| link.calls = link.calls.saturating_sub(1));
        }
    }

    fn head_of(&self, line: &FarLine) -> Option<CallHead> {
        let user = self.users.get(&line.call.user)?;
        Some(CallHead {
            session: line.call.session,
            user: user.user,
            process: line.call.process,
            // Numbers of nodes are checked where they are configured.
            node: u32::try_from(user.peer.node.0).unwrap_or(u32::MAX),
            bytes: line.payload.len() as u32,
            ..CallHead::default()
        })
    }

    /// A node is lost: its users are nobody any more, and their calls are void.
    pub(crate) fn lose_users(&mut self, to: LinkId) {
        self.users.retain(|_, user| user.peer.link != to);
        let its = self.far.iter().filter(|(_, line)| line.link == to).map(|(far, _)| far);
        for far in its.collect::<Vec<_>>() {
            self.far.remove(far);
        }
        let is_its =
            |call: &OpenCall| matches!(call.caller, Caller::There { link, .. } if link == to);
        let its = self.calls.iter().filter(|(_, call)| is_its(call)).map(|(call, _)| call);
        for call in its.collect::<Vec<_>>() {
            self.calls.remove(call);
        }
        self.names.retain(|(link, _), _| *link != to);
    }
}
