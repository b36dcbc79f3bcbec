//! The way to one joined node: its caller, what is on it, and what waits for room.

use std::collections::VecDeque;
use std::sync::Arc;

use heliostat_abi::cluster::Class;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::peer::PeerMessage;
use heliostat_abi::rpc::request::SERVICE;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_loop::OperationId;
use heliostat_server_node::{Caller, NodeCall, PeerNode};

use super::call::{answer_of, FarAnswered, What};
use super::lanes::Lanes;

/// Bytes that a message costs beside its payload: what the transport counts for it.
pub(crate) const MESSAGE_COST: u64 = 2048;
/// Calls of this node that a node has in line or has received.
pub(crate) const AWAY_PER_NODE_MAX: usize = 4096;
/// Bytes of replies of one class on the way to one node; at least one reply is.
const REPLY_BYTES_MAX: u64 = 8 << 20;
/// How long nothing is sent where the node's thread takes nothing.
const HOLD_NS: u64 = 2_000_000;
/// How long a message may take that is no call. A node that is hung is lost long before.
const NOTE_NS_MAX: u64 = 1_000_000_000;
/// The same of a reply, whose bytes take their time.
const REPLY_NS_MAX: u64 = 10_000_000_000;
/// How long a reply waits for room on a link that takes none.
pub(crate) const STALL_NS: u64 = 1_000_000_000;

/// Tells the loop of an answer, from the node's thread.
pub(crate) type Tell = Arc<dyn Fn(FarAnswered) + Send + Sync>;

/// The way.
pub(crate) struct Link {
    pub peer: PeerNode,
    caller: Caller,
    pub lanes: Lanes,
    /// Calls of this node that are there.
    pub away: usize,
    /// Bytes of replies on the way, by class.
    reply_bytes: [u64; 3],
    /// Who answers a call of that node and waits for room.
    pub stalled: VecDeque<OperationId>,
    /// Short messages that wait for room: one for each call at most.
    notes: VecDeque<(Class, PeerMessage)>,
    /// When the last of what was sent was answered.
    pub heard_ns: u64,
    /// Of each class nothing is sent before.
    holds_ns: [Option<u64>; 3],
    /// Calls of that node that are here.
    pub calls: usize,
    /// Bytes of those that are in line.
    pub bytes: u64,
}

impl Link {
    pub(crate) fn new(peer: PeerNode, caller: Caller) -> Link {
        Link {
            peer,
            caller,
            lanes: Lanes::default(),
            away: 0,
            reply_bytes: [0; 3],
            stalled: VecDeque::new(),
            notes: VecDeque::new(),
            heard_ns: monotonic_ns(),
            holds_ns: [None; 3],
            calls: 0,
            bytes: 0,
        }
    }

    /// Whether a reply of so many bytes may be on its way.
    pub(crate) fn has_room_for_reply(&self, class: Class, bytes: u64) -> bool {
        let waits = self.notes.iter().any(|(of, _)| *of == class);
        let under_way = self.reply_bytes[class.place()];
        let fits = under_way == 0 || under_way + bytes <= REPLY_BYTES_MAX;
        fits && !waits && !self.is_held(class)
    }

    /// Sends a reply; false when the node's thread takes nothing now.
    pub(crate) fn reply(
        &mut self,
        tell: Option<&Tell>,
        (class, call): (Class, ObjectId),
        message: PeerMessage,
        payload: Vec<u8>,
    ) -> bool {
        let cost = payload.len() as u64;
        let deadline_ns = monotonic_ns().saturating_add(REPLY_NS_MAX);
        let is_idle = self.reply_bytes == [0; 3];
        let what = What::Reply { call, class, cost };
        let sent = self.send(tell, message, payload, (what, deadline_ns));
        if sent {
            self.reply_bytes[class.place()] += cost;
            if is_idle {
                self.heard_ns = monotonic_ns();
            }
        }
        sent
    }

    /// Says something short, now or when there is room.
    pub(crate) fn note(&mut self, tell: Option<&Tell>, class: Class, message: PeerMessage) {
        self.notes.push_back((class, message));
        self.send_notes(tell);
    }

    /// Says what waits, each class in order.
    pub(crate) fn send_notes(&mut self, tell: Option<&Tell>) {
        for (class, message) in std::mem::take(&mut self.notes) {
            let deadline_ns = monotonic_ns().saturating_add(NOTE_NS_MAX);
            let told = (What::Note(class, message), deadline_ns);
            if self.is_held(class) || !self.send(tell, message, Vec::new(), told) {
                self.notes.push_back((class, message));
            }
        }
    }

    /// A reply has its answer.
    pub(crate) fn reply_came(&mut self, class: Class, cost: u64) {
        let under_way = &mut self.reply_bytes[class.place()];
        *under_way = under_way.saturating_sub(cost);
    }

    /// Nothing of a class is sent for a moment.
    pub(crate) fn hold(&mut self, class: Class) {
        self.holds_ns[class.place()] = Some(monotonic_ns().saturating_add(HOLD_NS));
    }

    /// Whether nothing of a class is sent now.
    pub(crate) fn is_held(&self, class: Class) -> bool {
        self.holds_ns[class.place()].is_some()
    }

    /// When something is sent again that is held now.
    pub(crate) fn held_until_ns(&self) -> Option<u64> {
        self.holds_ns.iter().flatten().min().copied()
    }

    /// Ends the holds whose time is over; whether there were any.
    pub(crate) fn end_holds(&mut self, now_ns: u64) -> bool {
        let ended = self.holds_ns.iter_mut().filter_map(|it| it.take_if(|at| *at <= now_ns));
        ended.count() > 0
    }

    /// Sends something, likewise; what was sent is answered exactly once.
    pub(crate) fn send(
        &mut self,
        tell: Option<&Tell>,
        message: PeerMessage,
        payload: Vec<u8>,
        (what, deadline_ns): (What, u64),
    ) -> bool {
        let PeerNode { node, link, .. } = self.peer;
        let Some(tell) = tell.cloned() else { return false };
        let then = move |outcome| tell(FarAnswered { link, what, answer: answer_of(outcome) });
        let header = message.encode().to_vec();
        let link = Some(link);
        let call = NodeCall { node, link, service: SERVICE, header, payload, deadline_ns };
        let class = what.class();
        let is_taken = self.caller.call_as(class, call, then).is_ok();
        if !is_taken {
            self.hold(class);
        }
        is_taken
    }
}
