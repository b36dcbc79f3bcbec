//! What the loop keeps of functions and calls besides its sessions' lines.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use heliostat_abi::cluster::Class;
use heliostat_abi::file::delegated::{Piece, DEPTH_MAX, SESSIONS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::peer::{FarReply, PeerMessage};
use heliostat_abi::table::Table;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::{Gate, OperationId, Order};
use heliostat_server_node::{LinkId, Replies};

use super::between::{AwayCall, FarLine, Link, Named, Tell, User};
use super::function::{Function, Line, Message};
use super::message::RpcOrder;
use super::served::ServedFunction;

/// Bytes of messages that wait, of all functions: memory of the control plane's.
pub const STORED_BYTES_MAX: u64 = 64 << 20;
/// Of these, those of one user's functions.
const STORED_BYTES_PER_USER: u64 = STORED_BYTES_MAX / 4;

/// Remote procedure calls on one loop.
pub struct Rpcs {
    pub(crate) functions: HashMap<ObjectId, Function>,
    /// Calls that somebody has received, or is about to.
    pub(crate) calls: Table<OpenCall>,
    /// Functions whose lines have changed.
    pub(crate) changed: Vec<ObjectId>,
    /// Operations that answer a call.
    pub(crate) answering: Vec<OperationId>,
    /// Operations with bytes on their way.
    pub(crate) active: Vec<Active>,
    /// Operations whose bytes have arrived.
    pub(crate) landed: Vec<OperationId>,
    /// Calls whose server has ended.
    pub(crate) orphans: Vec<OperationId>,
    /// Sessions to be rung.
    pub(crate) unrung: Vec<ObjectId>,
    /// Functions with messages that wait for bytes, which any function's may free.
    pub(crate) refused: Vec<ObjectId>,
    stored: HashMap<u32, u64>,
    stored_all: u64,
    /// Tells this loop of answers of other nodes, from their thread.
    pub(crate) tell: Option<Tell>,
    /// By this other nodes are answered, if there are any.
    pub(crate) replies: Option<Replies>,
    /// Nodes that are joined.
    pub(crate) links: HashMap<LinkId, Link>,
    /// Calls of this node's sessions that are on others.
    pub(crate) away: Table<AwayCall>,
    /// Users of other nodes.
    pub(crate) users: HashMap<ObjectId, User>,
    /// Calls of theirs that are in line.
    pub(crate) far: Table<FarLine>,
    /// All calls of theirs, by their node's number for them.
    pub(crate) names: HashMap<(LinkId, ObjectId), Named>,
    /// Sessions' operations that were cut short, which may concern another node.
    pub(crate) cut: Vec<(ObjectId, ObjectId)>,
    /// Ways to other nodes on which something may be sent.
    pub(crate) ways: BTreeSet<LinkId>,
    /// When something has to be done for other nodes because time went by.
    pub(crate) wake_ns: Option<u64>,
}

/// Calls of this node's sessions on other nodes, and of other nodes here that are in line: of each node
/// there are far fewer.
const FAR_MAX: usize = 1 << 16;

/// A call that was matched with a server.
pub(crate) struct OpenCall {
    pub caller: Caller,
    /// The place of the session that received it: its replies alone count.
    pub server: ObjectId,
    /// It has arrived there, and may have an effect from then on.
    pub is_delivered: bool,
    /// A reply is on its way.
    pub is_answered: bool,
}

/// Whose call it is.
pub(crate) enum Caller {
    /// A session's of this loop.
    Here {
        id: OperationId,
        /// The caller's window.
        window: Arc<SharedMapping>,
        /// Where the reply goes there.
        place: Piece,
    },
    /// Another node's, by its number for it.
    There { link: LinkId, call: ObjectId, class: Class, reply_bytes: u32 },
}

/// Two operations with bytes on their way.
#[derive(Clone, Copy)]
pub(crate) struct Active {
    /// Whose turns carry them: a Call, or who answers one.
    pub owner: OperationId,
    /// Whose window they go to: a Receive, or the Call that is answered. It cannot end meanwhile.
    pub partner: OperationId,
    /// The call.
    pub call: ObjectId,
    /// Whether it is answered.
    pub is_reply: bool,
}

/// Bytes that a message with such a payload takes while it waits.
fn kept_bytes(payload: u64) -> u64 {
    size_of::<Message>() as u64 + payload
}

impl Default for Rpcs {
    fn default() -> Self {
        Rpcs {
            functions: HashMap::new(),
            // Each is an operation of a session, or was one that ended since it asked something last.
            calls: Table::lean(2 * SESSIONS_MAX * DEPTH_MAX),
            changed: Vec::new(),
            answering: Vec::new(),
            active: Vec::new(),
            landed: Vec::new(),
            orphans: Vec::new(),
            unrung: Vec::new(),
            refused: Vec::new(),
            stored: HashMap::new(),
            stored_all: 0,
            tell: None,
            replies: None,
            links: HashMap::new(),
            away: Table::lean(FAR_MAX),
            users: HashMap::new(),
            far: Table::lean(FAR_MAX),
            names: HashMap::new(),
            cut: Vec::new(),
            ways: BTreeSet::new(),
            wake_ns: None,
        }
    }
}

impl Rpcs {
    /// Those of a node that others are joined to. `gate` is the way to this loop.
    pub fn with_nodes(self, gate: Option<Gate<Rpcs>>, replies: Replies) -> Self {
        let tell = gate.map(|gate| {
            let tell: Tell = Arc::new(move |answered| {
                gate.send(Order::Service(RpcOrder::Answered(Box::new(answered))));
            });
            tell
        });
        Self { tell, replies: Some(replies), ..self }
    }

    /// Whether lines have to be looked at.
    pub(crate) fn has_news(&self) -> bool {
        let quiet = self.changed.is_empty() && self.answering.is_empty() && self.active.is_empty();
        let quiet = quiet && self.orphans.is_empty() && self.unrung.is_empty();
        !(quiet && self.cut.is_empty() && self.ways.is_empty())
    }

    /// A line of a function has changed.
    pub(crate) fn note(&mut self, function: ObjectId) {
        if !self.changed.contains(&function) {
            self.changed.push(function);
        }
    }

    /// Whether a message of so many bytes may wait for a function of a user. One that may not is
    /// remembered: the function's line is looked at again when there is more room.
    pub(crate) fn may_store(&mut self, info: &ServedFunction, bytes: u64) -> bool {
        let kept = kept_bytes(bytes);
        let of_user = self.stored.get(&info.user).copied().unwrap_or(0);
        let may =
            of_user + kept <= STORED_BYTES_PER_USER && self.stored_all + kept <= STORED_BYTES_MAX;
        if !may && !self.refused.contains(&info.function) {
            self.refused.push(info.function);
        }
        may
    }

    /// A message of so many bytes waits.
    pub(crate) fn store(&mut self, user: u32, bytes: u64) {
        *self.stored.entry(user).or_default() += kept_bytes(bytes);
        self.stored_all += kept_bytes(bytes);
    }

    /// A message no longer waits.
    pub(crate) fn release(&mut self, user: u32, message: &Message) {
        let kept = kept_bytes(message.payload.len() as u64);
        self.stored_all = self.stored_all.saturating_sub(kept);
        if let Some(of_user) = self.stored.get_mut(&user) {
            *of_user = of_user.saturating_sub(kept);
            if *of_user == 0 {
                self.stored.remove(&user);
            }
        }
        std::mem::take(&mut self.refused).into_iter().for_each(|function| self.note(function));
    }

    /// Forgets a session's calls, those that it made and those that it received. One that was on its
    /// way to it goes to another server once its bytes are called back.
    pub(crate) fn forget(&mut self, seat: ObjectId) {
        self.functions.values_mut().for_each(|function| function.forget(seat));
        let made_it =
            |call: &OpenCall| matches!(call.caller, Caller::Here { id, .. } if id.seat == seat);
        let is_its = |call: &OpenCall| made_it(call) || call.server == seat;
        let its = self.calls.iter().filter(|(_, call)| is_its(call)).map(|(id, _)| id);
        for id in its.collect::<Vec<_>>() {
            let Some(call) = self.end_call(id) else { continue };
            match call.caller {
                Caller::Here { id, .. } if id.seat != seat && call.is_delivered => {
                    self.orphans.push(id);
                }
                Caller::Here { .. } => {}
                Caller::There { link, call, class, .. } => {
                    let how = FarReply::ServerEnded;
                    self.note_to((link, class), PeerMessage::Reply { call, how });
                }
            }
        }
        self.forget_away(seat);
        // A message of its may have waited for room in front of others.
        let senders = self.functions.iter().filter(|(_, it)| it.may_have(Line::Senders));
        let senders: Vec<_> = senders.map(|(function, _)| *function).collect();
        senders.into_iter().for_each(|function| self.note(function));
    }

    /// Forgets what a session has on other nodes, which are told.
    fn forget_away(&mut self, seat: ObjectId) {
        self.links.values_mut().for_each(|link| link.lanes.forget(|id| id.seat == seat));
        let its = self.away.iter().filter(|(_, away)| away.id.seat == seat).map(|(call, _)| call);
        for call in its.collect::<Vec<_>>() {
            let Some(away) = self.end_away(call) else { continue };
            self.note_to((away.link, away.class), PeerMessage::Leave { call });
        }
    }

    /// A call was answered, or nobody waits for it.
    pub(crate) fn end_call(&mut self, id: ObjectId) -> Option<OpenCall> {
        let open = self.calls.remove(id)?;
        if let Caller::There { link, call, .. } = open.caller {
            self.forget_name(link, call);
        }
        Some(open)
    }

    /// A call of this node is on another no more, as far as this one knows.
    pub(crate) fn end_away(&mut self, call: ObjectId) -> Option<AwayCall> {
        let away = self.away.remove(call)?;
        let link = self.links.get_mut(&away.link);
        link.into_iter().for_each(|link| link.away = link.away.saturating_sub(1));
        self.look_at(away.link);
        Some(away)
    }

    /// Tells another node something short; where it is lost it knows.
    pub(crate) fn note_to(&mut self, (to, class): (LinkId, Class), message: PeerMessage) {
        if let Some(link) = self.links.get_mut(&to) {
            link.note(self.tell.as_ref(), class, message);
            self.look_at(to);
        }
    }

    /// Something may be sent to a node.
    pub(crate) fn look_at(&mut self, to: LinkId) {
        self.ways.insert(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_without_bytes_take_room_as_well() {
        let function = ObjectId { index: 1, generation: 1 };
        let (request_bytes, reply_bytes, queue) = (0, 0, 1);
        let info = ServedFunction { function, user: 7, request_bytes, reply_bytes, queue };
        let mut rpcs = Rpcs::default();
        let most = STORED_BYTES_PER_USER / heliostat_abi::rpc::HEAD_BYTES as u64;
        let stored = (0..=most).take_while(|_| {
            let may = rpcs.may_store(&info, 0);
            rpcs.store(info.user, 0);
            may
        });
        assert!(stored.count() as u64 <= most);
    }
}
