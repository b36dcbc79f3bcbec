//! The cluster: who is a member, the node's thread, and what waits for other nodes.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_server_node::{LinkId, Nodes, NodesEvent, PeerNode};
use heliostat_service_cluster::Cluster;

use super::cluster_registry::ClusterRegistry;
use super::per_node::PerNode;

/// What the daemon keeps of a cluster.
pub struct ClusterNode {
    /// Who is a member, and what is next.
    pub members: Cluster,
    /// This life of this node.
    pub incarnation: u64,
    /// The node's thread.
    pub nodes: Nodes,
    /// What it tells.
    pub events: Receiver<NodesEvent>,
    /// Rings when there is something.
    pub bell: Arc<OwnedFd>,
    /// Peers that services were told of.
    pub joined: BTreeMap<LinkId, PeerNode>,
    /// Calls of services that have not ended.
    pub calls: NodeCalls,
    /// Sessions that wait for a list of another node, and for which of their requests.
    pub lists: HashMap<u64, (ObjectId, u32)>,
    /// Why each member was not joined, or was lost, last.
    pub reasons: BTreeMap<u64, String>,
    /// When the node's thread is started anew, if it has ended, and how often that came to nothing.
    pub restart: Option<Restart>,
    /// It has, and was not started yet.
    pub is_ended: bool,
    /// When it was last measured how far others are.
    pub probed_ns: u64,
    /// What happened so often.
    pub counts: ClusterCounts,
    /// The registry, where one decides who is a member.
    pub registry: Option<ClusterRegistry>,
    /// Peers that the registry does not name yet.
    pub waiting: BTreeMap<LinkId, PeerNode>,
    chances: RandomState,
}

/// Calls of the daemon to other nodes that have not ended.
const CALLS_MAX: usize = 4096;
/// Those to one node: more than memory asks of it and gives back to it, so that lists have room.
const CALLS_PER_NODE_MAX: usize = 512;

/// Calls of services, by the number that the node's thread knows them by.
pub struct NodeCalls {
    calls: HashMap<u64, NodeCallOf>,
    counts: PerNode,
    last: u64,
}

/// A call that has not ended.
struct NodeCallOf {
    node: u64,
    service: u16,
    token: u64,
}

/// The shortest and the longest time until a thread that has ended is started anew.
const RESTART_NS: std::ops::RangeInclusive<u64> = 100_000_000..=30_000_000_000;

/// A thread that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restart {
    /// When it is started anew.
    pub at_ns: u64,
    wait_ns: u64,
}

impl Restart {
    /// The thread has ended, or could not be started, after such a wait before: twice that, at first a
    /// tenth of a second.
    pub fn after(before: Option<Restart>, now_ns: u64) -> Restart {
        let doubled = before.map_or(0, |it| it.wait_ns.saturating_mul(2));
        let wait_ns = doubled.clamp(*RESTART_NS.start(), *RESTART_NS.end());
        Restart { at_ns: now_ns.saturating_add(wait_ns), wait_ns }
    }
}

/// What is counted.
#[derive(Clone, Copy, Default)]
pub struct ClusterCounts {
    /// Starts of the node's thread after the first.
    pub restarts: u64,
    /// Nodes joined, each time.
    pub joined: u64,
    /// Nodes lost, or left, each time.
    pub lost: u64,
    /// Joins that came to nothing.
    pub not_joined: u64,
    /// Requests of other nodes that reached the daemon.
    pub asked: u64,
    /// Calls of services to other nodes.
    pub calls: u64,
    /// Those without an answer.
    pub calls_failed: u64,
}

impl ClusterNode {
    /// A node whose thread runs.
    pub fn new(
        members: Cluster,
        incarnation: u64,
        nodes: Nodes,
        events: Receiver<NodesEvent>,
        bell: Arc<OwnedFd>,
    ) -> ClusterNode {
        ClusterNode {
            members,
            incarnation,
            nodes,
            events,
            bell,
            joined: BTreeMap::new(),
            calls: NodeCalls::new(),
            lists: HashMap::new(),
            reasons: BTreeMap::new(),
            restart: None,
            is_ended: false,
            probed_ns: 0,
            counts: ClusterCounts::default(),
            registry: None,
            waiting: BTreeMap::new(),
            chances: RandomState::new(),
        }
    }

    /// When there is something to do because time went by.
    pub fn next_ns(&self) -> Option<u64> {
        let restart = self.restart.filter(|_| self.is_ended).map(|it| it.at_ns);
        self.members.next_ns().into_iter().chain(restart).min()
    }

    /// A number for a list that is to be asked of another node: none that waits has it.
    pub fn next_list(&self) -> u64 {
        self.counts.calls
    }

    /// A number that other nodes cannot guess.
    pub fn chance(&self, now_ns: u64) -> u64 {
        self.chances.hash_one(now_ns)
    }
}

impl NodeCalls {
    fn new() -> NodeCalls {
        let counts = PerNode::new(CALLS_MAX, CALLS_PER_NODE_MAX);
        NodeCalls { calls: HashMap::new(), counts, last: 0 }
    }

    /// The limit that leaves no room for another call to a node, if one does.
    pub fn full(&self, node: u64) -> Option<usize> {
        self.counts.full(node)
    }

    /// Gives a call of a service to a node a number.
    pub fn begin(&mut self, node: u64, service: u16, token: u64) -> u64 {
        self.last += 1;
        self.counts.add(node);
        self.calls.insert(self.last, NodeCallOf { node, service, token });
        self.last
    }

    /// Whose call it was, and what that service calls it.
    pub fn end(&mut self, number: u64) -> Option<(u16, u64)> {
        let NodeCallOf { node, service, token } = self.calls.remove(&number)?;
        self.counts.remove(node);
        Some((service, token))
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.calls.len()
    }
}
