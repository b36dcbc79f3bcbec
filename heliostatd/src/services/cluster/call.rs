//! What services ask of other nodes, and what other nodes ask of services.

use heliostat_abi::cluster::Class;
use heliostat_server_node::{AskId, CallError, CallFailure, Effect, NodeCall, Outcome, PeerNode};
use tracing::debug;

use crate::daemon::{Daemon, NodeAsked};

impl Daemon {
    /// Calls a service of another node; never waits. The service of the same number here is told the
    /// outcome by `node_answered`, with this token, exactly once, by the deadline at the latest.
    ///
    /// # Errors
    /// The call was not made, and nothing follows: no cluster, too long, or too many.
    pub(crate) fn call_node(&mut self, token: u64, call: NodeCall) -> Result<(), CallError> {
        self.call_node_as(Class::Normal, token, call)
    }

    /// The same as one of a class. Calls of different classes overtake each other.
    pub(crate) fn call_node_as(
        &mut self,
        class: Class,
        token: u64,
        call: NodeCall,
    ) -> Result<(), CallError> {
        let (node, effect) = (Some(call.node), Effect::NotSent);
        let not_sent = |why| CallError { node, effect, why };
        let Some(cluster) = &mut self.services.cluster else {
            return Err(not_sent(CallFailure::NoPeer));
        };
        if let Some(limit) = cluster.calls.full(call.node.0) {
            return Err(not_sent(CallFailure::TooMany { limit }));
        }
        let number = cluster.calls.begin(call.node.0, call.service, token);
        cluster.nodes.call_as(class, number, call).inspect_err(|_| {
            cluster.calls.end(number);
        })?;
        cluster.counts.calls += 1;
        Ok(())
    }

    /// Answers a request of another node, now or later; never waits.
    pub(crate) fn reply_node(&self, ask: AskId, header: Vec<u8>, payload: Vec<u8>) {
        if let Some(cluster) = &self.services.cluster {
            cluster.nodes.replies().reply(ask, header, payload);
        }
    }

    /// Says to another node that nothing was done.
    pub(crate) fn refuse_node(&self, ask: AskId) {
        if let Some(cluster) = &self.services.cluster {
            cluster.nodes.replies().refuse(ask);
        }
    }

    /// A node that is joined, by the link that it has now.
    pub(crate) fn joined_node(&self, node: u64) -> Option<PeerNode> {
        let joined = &self.services.cluster.as_ref()?.joined;
        joined.values().rev().find(|peer| peer.node.0 == node).copied()
    }

    /// The node's own number, where there is a cluster.
    pub(crate) fn own_node(&self) -> Option<u64> {
        self.services.cluster.as_ref().map(|cluster| cluster.members.own())
    }

    /// A call has ended.
    pub(super) fn node_answered(&mut self, number: u64, outcome: Outcome) {
        let Some(cluster) = &mut self.services.cluster else { return };
        let Some((number, token)) = cluster.calls.end(number) else { return };
        cluster.counts.calls_failed += u64::from(outcome.is_err());
        let service = self.parts.table.iter().find(|service| service.number() == number);
        if let Some(service) = service {
            service.node_answered(self, token, outcome);
        }
    }

    /// Another node asks. One that is no member any more gets nothing.
    pub(super) fn node_asked(&mut self, number: u16, asked: NodeAsked) {
        let Some(cluster) = &mut self.services.cluster else { return };
        let is_member = cluster.joined.contains_key(&asked.peer.link);
        cluster.counts.asked += 1;
        let service = self.parts.table.iter().find(|service| service.number() == number);
        match service.filter(|_| is_member) {
            Some(service) => service.node_asked(self, asked),
            None => {
                debug!(node = %asked.peer.node, service = number, "asks a service that is not here");
                self.refuse_node(asked.ask);
            }
        }
    }
}
