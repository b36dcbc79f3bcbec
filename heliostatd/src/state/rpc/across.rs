//! Functions between nodes: users of other nodes here, what this node's sessions found there, and what
//! is asked.

use std::collections::{HashMap, VecDeque};

use heliostat_abi::cluster::Class;
use heliostat_abi::name::ObjectId;
use heliostat_server_node::{Orders, PeerNode};
use heliostat_server_rpc::PeerCalls;
use heliostat_service_rpc::{Limits, PeerSessions, Remote, Remotes};

use crate::state::per_node::PerNode;

/// Requests of sessions to other control planes that have no answer, in all and to one node.
const ASKS_MAX: usize = 1024;
const ASKS_PER_NODE_MAX: usize = 64;
/// Functions that are being given back, in all and to one node; the others wait.
const RETURNS_MAX: usize = 512;
const RETURNS_PER_NODE_MAX: usize = 32;

/// What the daemon keeps of functions between nodes.
pub struct Across {
    /// Users of other nodes, as sessions.
    pub users: PeerSessions,
    /// Functions of other nodes that sessions of this one have.
    pub remotes: Remotes,
    /// The way to the node's thread, if there is one.
    pub hosted: Option<Orders<PeerCalls>>,
    /// Functions to be given back once fewer are on the way.
    pub unreturned: VecDeque<Remote>,
    /// What was asked of other control planes, by token.
    waiting: HashMap<u64, Waiting>,
    asks: PerNode,
    returns: PerNode,
    last_token: u64,
}

/// A request to another control plane.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Which session waits, and for which of its requests; nobody where a function was given back.
    pub session: Option<(ObjectId, u32)>,
    /// Who was asked.
    pub peer: PeerNode,
    /// As whom.
    pub user: u32,
    /// Whether for a function, and not for a list.
    pub wants_function: bool,
    /// How urgent calls of that function will be.
    pub class: Class,
}

impl Across {
    /// Nothing yet.
    pub fn new(limits: Limits) -> Across {
        Across {
            users: PeerSessions::default(),
            remotes: Remotes::new(limits),
            hosted: None,
            unreturned: VecDeque::new(),
            waiting: HashMap::new(),
            asks: PerNode::new(ASKS_MAX, ASKS_PER_NODE_MAX),
            returns: PerNode::new(RETURNS_MAX, RETURNS_PER_NODE_MAX),
            last_token: 0,
        }
    }

    /// Whether a node may be asked something, or given a function back.
    pub fn may_ask(&self, node: u64, is_return: bool) -> bool {
        let counts = if is_return { &self.returns } else { &self.asks };
        counts.full(node).is_none()
    }

    /// Keeps a request, and names it.
    pub fn wait(&mut self, waiting: Waiting) -> u64 {
        self.last_token += 1;
        self.counts(waiting.session.is_none()).add(waiting.peer.node.0);
        self.waiting.insert(self.last_token, waiting);
        self.last_token
    }

    /// A request has ended, or was not made.
    pub fn end(&mut self, token: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&token)?;
        self.counts(waiting.session.is_none()).remove(waiting.peer.node.0);
        Some(waiting)
    }

    fn counts(&mut self, is_return: bool) -> &mut PerNode {
        if is_return {
            &mut self.returns
        } else {
            &mut self.asks
        }
    }
}
