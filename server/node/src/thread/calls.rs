//! Calls of this node: sent where there is room, kept until there is, and ended once.

use heliostat_backend_transport::error::{CallError, CallFailure};
use heliostat_backend_transport::frame::CallId;
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::node::Node;
use heliostat_backend_transport::transport::{LinkId, Transport};

use super::fence::is_free;
use super::Work;
use crate::call::NodeReply;
use crate::outgoing::Outgoing;

impl Work {
    /// Takes a call: behind those that wait for room already.
    pub(super) fn call<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, call: Outgoing) {
        let link = node.link_to(call.node).filter(|link| call.link.is_none_or(|it| it == *link));
        let may_ask = |link: &LinkId| is_free(&call.header) || self.is_open(*link);
        let link = link.filter(may_ask);
        let Some(link) = link else { return call.fail(CallFailure::NoPeer) };
        let waits = self.peers.get(&link).is_some_and(|peer| !peer.calls.is_empty());
        let unsent = if waits { Some(call) } else { self.send(node, now_ns, link, call) };
        unsent.into_iter().for_each(|call| self.queue(link, call));
    }

    /// Sends a call. One that there is no room for comes back.
    fn send<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        link: LinkId,
        mut call: Outgoing,
    ) -> Option<Outgoing> {
        let payload = std::mem::take(&mut call.payload);
        match node.call(now_ns, link, &call.header, payload, call.deadline_ns) {
            Ok(id) => {
                call.answer.is_sent = true;
                self.sent.insert(id, (link, call.answer));
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

    fn queue(&mut self, link: LinkId, call: Outgoing) {
        let deadline_ns = call.deadline_ns;
        let Some(peer) = self.peers.get_mut(&link) else { return call.fail(CallFailure::NoPeer) };
        match peer.queue_call(call) {
            None => self.wake_at(deadline_ns),
            Some(call) => call.fail(CallFailure::Full),
        }
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn send_waiting<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        link: LinkId,
    ) {
        while let Some(call) = self.peers.get_mut(&link).and_then(|peer| peer.next_call()) {
            if let Some(call) = self.send(node, now_ns, link, call) {
                if let Some(peer) = self.peers.get_mut(&link) {
                    peer.requeue_call(call);
                }
                return;
            }
        }
    }

    fn wake_at(&mut self, deadline_ns: u64) {
        self.wake_ns = Some(self.wake_ns.map_or(deadline_ns, |ns| ns.min(deadline_ns)));
    }

    /// Ends the calls that found no room in time.
    pub(super) fn expire(&mut self, now_ns: u64) {
        let late: Vec<_> = self.peers.values_mut().flat_map(|peer| peer.expired(now_ns)).collect();
        let waiting = self.peers.values().flat_map(|peer| &peer.calls);
        self.wake_ns = waiting.map(|call| call.deadline_ns).min();
        late.into_iter().for_each(|call| call.fail(CallFailure::Deadline));
    }

    /// A call has its answer.
    pub(super) fn answered(&mut self, call: CallId, by: NodeId, header: Vec<u8>, payload: Vec<u8>) {
        if let Some((link, answer)) = self.sent.remove(&call) {
            answer.give(Ok(NodeReply { link, header, payload }));
        } else {
            self.probed(call, by);
        }
    }

    /// A call has none.
    pub(super) fn failed(&mut self, call: CallId, error: CallError) {
        self.probes.remove(&call);
        if let Some((_, answer)) = self.sent.remove(&call) {
            answer.give(Err(error));
        }
    }
}
