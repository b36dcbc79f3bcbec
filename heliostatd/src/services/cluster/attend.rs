//! What the node's thread tells: members come and go, and services hear of it in the same order.

use heliostat_base::clock::monotonic_ns;
use heliostat_control::config::ClusterAddress;
use heliostat_server_node::{Address, LinkId, LostCause, NodeId, NodesEvent, PeerNode};
use heliostat_service_cluster::{Effect, Ending, Found};
use tracing::{debug, error, info, warn};

use super::start::listen;
use crate::daemon::{Daemon, NodeAsked};
use crate::state::cluster::Restart;

/// Events attended to before others are served.
const EVENTS_AT_ONCE: usize = 256;
/// How long a join may take: connection and handshake.
const JOIN_NS_MAX: u64 = 2_000_000_000;
/// Why no node is joined.
const ENDED: &str = "the node's thread has ended, since its transport broke: it is started anew";
/// A thread that has lived so long starts with the shortest wait again.
const LIVED_NS: u64 = 60_000_000_000;

impl Daemon {
    /// Attends to what the node's thread tells.
    pub(crate) fn attend_cluster(&mut self) {
        let Some(cluster) = &self.services.cluster else { return };
        let mut count = [0; 8];
        // It fails where nobody rang.
        let _ = rustix::io::read(&cluster.bell, &mut count);
        self.attend_registry();
        for _ in 0..EVENTS_AT_ONCE {
            let received = self.services.cluster.as_ref().map(|it| it.events.try_recv());
            let Some(Ok(event)) = received else { return };
            self.take_cluster(event);
        }
        if let Some(cluster) = &self.services.cluster {
            // More of them: the bell brings us back after the others.
            let _ = rustix::io::write(&cluster.bell, &1u64.to_ne_bytes());
        }
    }

    fn take_cluster(&mut self, event: NodesEvent) {
        match event {
            NodesEvent::Joined { peer, is_ours } => self.node_joined(peer, is_ours),
            NodesEvent::NotJoined { node, why } => self.node_not_joined(node, &why.to_string()),
            NodesEvent::Lost { peer, why } => self.node_lost(peer, why),
            NodesEvent::RoundTrip { node, ns } => {
                if let Some(cluster) = &mut self.services.cluster {
                    cluster.members.measured(node.0, ns);
                }
            }
            NodesEvent::Answered { token, outcome } => self.node_answered(token, outcome),
            NodesEvent::Request { ask, peer, service, header, payload, deadline_ns, class } => {
                let asked = NodeAsked { ask, peer, header, payload, deadline_ns, class };
                self.node_asked(service, asked);
            }
            NodesEvent::Gone => self.lose_every_node(),
        }
    }

    pub(super) fn node_joined(&mut self, peer: PeerNode, is_ours: bool) {
        let now = monotonic_ns();
        let Some(cluster) = &mut self.services.cluster else { return };
        let mut effects = Vec::new();
        let PeerNode { node, incarnation, link } = peer;
        let found = Found { node: node.0, incarnation, link: link.0, is_ours };
        let chance = cluster.chance(now);
        if cluster.members.joined(found, now, chance, &mut effects) {
            info!(%node, incarnation, is_ours, epoch = cluster.members.epoch(), "a node is joined");
            cluster.counts.joined += 1;
            cluster.reasons.remove(&node.0);
            cluster.joined.insert(link, peer);
            cluster.nodes.admit(link);
            let table = self.parts.table;
            table.iter().for_each(|service| service.node_joined(self, peer));
        } else if cluster.members.is_waiting(link.0) {
            info!(%node, incarnation, is_ours, "a node waits for the registry to name it");
            cluster.waiting.insert(link, peer);
        } else {
            warn!(%node, incarnation, "a node is left again: told to, an earlier or dead life, or one too many");
        }
        self.order_cluster(effects);
    }

    fn node_not_joined(&mut self, node: NodeId, why: &str) {
        let now = monotonic_ns();
        let Some(cluster) = &mut self.services.cluster else { return };
        cluster.counts.not_joined += 1;
        let chance = cluster.chance(now);
        cluster.members.not_joined(node.0, now, chance);
        let is_said = cluster.reasons.get(&node.0).is_some_and(|said| said == why);
        if is_said || cluster.members.member(node.0).is_none_or(|it| it.retry_ns.is_none()) {
            return debug!(%node, why, "not joined");
        }
        warn!(%node, why, "not joined; tried again from time to time");
        cluster.reasons.insert(node.0, why.to_owned());
    }

    fn node_lost(&mut self, peer: PeerNode, why: LostCause) {
        let now = monotonic_ns();
        let Some(cluster) = &mut self.services.cluster else { return };
        let PeerNode { node, incarnation, link } = peer;
        let how = if why == LostCause::Left { Ending::Left } else { Ending::Lost };
        let chance = cluster.chance(now);
        cluster.waiting.remove(&link);
        if cluster.members.waiting_lost(link.0, now, chance) {
            return debug!(%node, incarnation, %why, "a node that waited is lost");
        }
        cluster.members.lost(node.0, incarnation, how, now, chance);
        // One that was left again at once was joined for nobody.
        if cluster.joined.remove(&link).is_none() {
            return;
        }
        info!(%node, incarnation, %why, epoch = cluster.members.epoch(), "a node is lost");
        cluster.counts.lost += 1;
        if cluster.members.member(node.0).is_some() {
            cluster.reasons.insert(node.0, why.to_string());
        }
        let table = self.parts.table;
        table.iter().for_each(|service| service.node_lost(self, peer));
    }

    /// The node's thread has ended, since its transport broke. Nobody is sought before it is started anew.
    fn lose_every_node(&mut self) {
        error!("{ENDED}");
        let Some(cluster) = &mut self.services.cluster else { return };
        let joined: Vec<_> = cluster.joined.values().copied().collect();
        joined.into_iter().for_each(|peer| self.node_lost(peer, LostCause::LeftHere));
        if let Some(cluster) = &mut self.services.cluster {
            let now_ns = monotonic_ns();
            cluster.members.end(now_ns);
            let recent = |it: &Restart| now_ns.saturating_sub(it.at_ns) < LIVED_NS;
            cluster.restart = Some(Restart::after(cluster.restart.filter(recent), now_ns));
            cluster.is_ended = true;
            let all = cluster.members.members();
            cluster.reasons = all.map(|(node, _)| (node, ENDED.to_owned())).collect();
        }
    }

    /// Gives the node's thread its orders.
    pub(super) fn order_cluster(&mut self, effects: Vec<Effect>) {
        let Some(cluster) = &self.services.cluster else { return };
        let deadline_ns = monotonic_ns().saturating_add(JOIN_NS_MAX);
        let mut admitted = Vec::new();
        for effect in effects {
            match effect {
                Effect::Join { node, address } => match address.as_str().parse::<Address>() {
                    Ok(to) => cluster.nodes.join(NodeId(node), to, deadline_ns),
                    // It was checked where it came in.
                    Err(error) => error!(node, %error, "not joined"),
                },
                Effect::Leave { node } => cluster.nodes.leave(NodeId(node)),
                Effect::LeaveLink { link } => cluster.nodes.leave_link(LinkId(link)),
                Effect::Admit(found) => admitted.push(found),
            }
        }
        admitted.into_iter().for_each(|found| self.admit_node(found));
    }

    /// Starts the node's thread anew, if it has ended and it is time.
    fn restart_node(&mut self, now_ns: u64) {
        let Some(config) = self.parts.config.cluster.as_ref() else { return };
        let Some(cluster) = &mut self.services.cluster else { return };
        let is_due = |it: Restart| now_ns >= it.at_ns;
        if !cluster.is_ended || !cluster.restart.is_some_and(is_due) {
            return;
        }
        let ClusterAddress { transport, socket } = config.listen;
        match cluster.nodes.start_again(move || listen(transport, socket)) {
            Ok(()) => {
                info!(address = %cluster.nodes.address(), "the node's thread is started anew");
                cluster.is_ended = false;
                cluster.counts.restarts += 1;
                cluster.reasons.clear();
                cluster.members.begin_again(now_ns);
            }
            Err(why) => {
                warn!(%why, "the node's thread is not started; tried again from time to time");
                cluster.restart = Some(Restart::after(cluster.restart, now_ns));
            }
        }
    }

    /// Seeks the nodes whose time has come.
    pub(crate) fn seek_nodes(&mut self, now_ns: u64) {
        self.restart_node(now_ns);
        let Some(cluster) = &mut self.services.cluster else { return };
        if cluster.members.next_ns().is_none_or(|due| now_ns < due) {
            return;
        }
        let mut effects = Vec::new();
        cluster.members.pass_time(now_ns, &mut effects);
        self.order_cluster(effects);
    }
}
