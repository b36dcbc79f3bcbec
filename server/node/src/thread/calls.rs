//! Calls of this node: sent where there is room, kept until there is, and ended once.

use heliostat_abi::cluster::Class;
use heliostat_backend_transport::error::{CallError, CallFailure};
use heliostat_backend_transport::frame::CallId;
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::node::Node;
use heliostat_backend_transport::transport::{LinkId, Transport};
use heliostat_base::clock::monotonic_ns;

use super::fence::is_free;
use super::{Sent, Work};
use crate::call::NodeReply;
use crate::outgoing::Outgoing;
use crate::quality::lanes::Queued;

impl Work {
    /// Takes a call: behind those of its class that wait for room already.
    pub(super) fn call<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, call: Outgoing) {
        let link = node.link_to(call.node).filter(|link| call.link.is_none_or(|it| it == *link));
        let may_ask = |link: &LinkId| is_free(&call.header) || self.is_open(*link);
        let link = link.filter(may_ask);
        let peer = link.and_then(|link| Some((link, self.peers.get_mut(&link)?)));
        let Some((link, peer)) = peer else { return call.fail(CallFailure::NoPeer) };
        self.is_changed = true;
        let unsent = match peer.calls.admit(monotonic_ns(), call) {
            Ok(Some(call)) => self.send(node, now_ns, link, call),
            Ok(None) => None,
            Err(call) => return call.fail(CallFailure::Full),
        };
        if let (Some(call), Some(peer)) = (unsent, self.peers.get_mut(&link)) {
            // Nothing of its class waits before it.
            if let Some(call) = peer.calls.queue(call) {
                call.fail(CallFailure::Full);
            }
        }
        self.wake_for(link);
    }

    /// Sends a call. One that there is no room for comes back.
    fn send<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        link: LinkId,
        mut call: Outgoing,
    ) -> Option<Outgoing> {
        let (class, bytes, made_ns) = (call.class, call.bytes(), call.made_ns);
        let payload = std::mem::take(&mut call.payload);
        match node.call(now_ns, link, &call.header, payload, call.deadline_ns) {
            Ok(id) => {
                call.answer.is_sent = true;
                let peer = self.peers.get_mut(&link);
                let sent = |calls: &mut super::Calls| calls.sent(monotonic_ns(), class, bytes);
                let on_way = peer.map(|peer| sent(&mut peer.calls).made(made_ns));
                self.sent.insert(id, Sent { link, answer: call.answer, on_way });
                None
            }
            Err(refused) if refused.error.why == CallFailure::Full => {
                call.payload = refused.payload;
                Some(call)
            }
            Err(refused) => {
                call.fail(refused.error.why);
                None
            }
        }
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn send_waiting<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        link: LinkId,
    ) {
        while let Some(call) =
            self.peers.get_mut(&link).and_then(|peer| peer.calls.next(monotonic_ns()))
        {
            self.is_changed = true;
            if let Some(call) = self.send(node, now_ns, link, call) {
                if let Some(peer) = self.peers.get_mut(&link) {
                    peer.calls.requeue(call);
                }
                break;
            }
        }
        self.wake_for(link);
    }

    /// The thread wakes for what waits on the way to a peer.
    fn wake_for(&mut self, link: LinkId) {
        let due = self.peers.get(&link).and_then(|peer| peer.calls.wake_ns());
        self.wake_ns = [self.wake_ns, due].into_iter().flatten().min();
    }

    /// Ends the calls that found no room in time.
    pub(super) fn expire(&mut self, now_ns: u64) {
        let peers = self.peers.values_mut();
        let late: Vec<_> = peers.flat_map(|peer| peer.calls.expired(now_ns)).collect();
        self.wake_ns = self.peers.values().filter_map(|peer| peer.calls.wake_ns()).min();
        late.into_iter().for_each(|call| call.fail(CallFailure::Deadline));
    }

    /// A call has its answer.
    pub(super) fn answered<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        (call, by): (CallId, NodeId),
        (header, payload): (Vec<u8>, Vec<u8>),
    ) {
        let Some(sent) = self.sent.remove(&call) else { return self.probed(call, by) };
        let link = sent.link;
        let goes_on = self.end_on_way(&sent, Some(header.len() + payload.len()));
        sent.answer.give(Ok(NodeReply { link, header, payload }));
        if goes_on {
            self.send_waiting(node, now_ns, link);
        }
    }

    /// A call has none.
    pub(super) fn failed<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        call: CallId,
        error: CallError,
    ) {
        self.probes.remove(&call);
        let Some(sent) = self.sent.remove(&call) else { return };
        let link = sent.link;
        let goes_on = self.end_on_way(&sent, None);
        sent.answer.give(Err(error));
        if goes_on {
            self.send_waiting(node, now_ns, link);
        }
    }

    /// A call is on the way no more; whether others may have waited for that.
    fn end_on_way(&mut self, sent: &Sent, answer_bytes: Option<usize>) -> bool {
        let Some(peer) = self.peers.get_mut(&sent.link) else { return false };
        self.is_changed = true;
        if let Some(on_way) = sent.on_way {
            peer.calls.ended(monotonic_ns(), on_way, answer_bytes);
        }
        peer.calls.waits_here()
    }

    /// Requests of a peer are of this class here.
    pub(super) fn class_of(&self, node: NodeId, said: Class) -> Class {
        match self.quality.shares.is_some() || self.quality.back_off.is_some() {
            true => self.quality.class_of(node.0, said),
            false => Class::Normal,
        }
    }
}
