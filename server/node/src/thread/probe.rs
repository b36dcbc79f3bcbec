//! How far a peer is: an echo, when it is joined and when somebody wants to know.

use heliostat_backend_transport::frame::CallId;
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::node::Node;
use heliostat_backend_transport::transport::Transport;
use heliostat_base::clock::monotonic_ns;

use super::Work;
use crate::event::NodesEvent;
use crate::header;

/// How long an echo may take: whoever is slower is lost soon.
const PROBE_NS_MAX: u64 = 1_000_000_000;

impl Work {
    /// Sends an echo. Where there is no room there are other things to measure.
    pub(super) fn probe<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, to: NodeId) {
        let Some(link) = node.link_to(to) else { return };
        let (header, deadline_ns) =
            (header::encode(header::ECHO, &[]), now_ns.saturating_add(PROBE_NS_MAX));
        if let Ok(call) = node.call(now_ns, link, &header, Vec::new(), deadline_ns) {
            // By the clock: the time of a step is the same for what is sent and comes in it.
            self.probes.insert(call, monotonic_ns());
        }
    }

    /// An echo is back.
    pub(super) fn probed(&mut self, call: CallId, node: NodeId) {
        if let Some(sent_ns) = self.probes.remove(&call) {
            let ns = monotonic_ns().saturating_sub(sent_ns);
            let its = self.peers.values_mut().filter(|peer| peer.who.node == node);
            its.for_each(|peer| peer.calls.measured(ns));
            self.events.send(NodesEvent::RoundTrip { node, ns });
        }
    }
}
