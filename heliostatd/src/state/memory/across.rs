//! Memory between nodes: users of other nodes here, this node's handles there, and what is asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use heliostat_abi::cluster::Class;
use heliostat_abi::memory::peer::REMOTE_HANDLES_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_memory::PeerHolds;
use heliostat_server_node::PeerNode;
use heliostat_service_grant::Shares;
use heliostat_service_memory::{PeerSessions, Remotes};

use super::returns::{Return, Returns};
use crate::state::per_node::PerNode;

/// Requests to other control planes that have no answer: one of each session, and those that their
/// sessions have given up. The daemon's calls are 4,096; so some are left to give handles back.
const WAITING_MAX: usize = 2048;
/// Those to one node: one that never answers has no more of them.
const WAITING_PER_NODE_MAX: usize = 256;
/// Handles that are being given back, in all and to one node; the others wait.
const RETURNS_MAX: usize = 1024;
const RETURNS_PER_NODE_MAX: usize = 128;

/// What the daemon keeps of memory between nodes.
pub struct Across {
    /// Users of other nodes, as sessions.
    pub users: PeerSessions,
    /// What they hold, as the node's thread sees it.
    pub holds: Arc<PeerHolds>,
    /// What this node's sessions hold on other nodes.
    pub remotes: Remotes,
    /// How urgent is what is done by these, where that is not normal.
    pub classes: HashMap<(ObjectId, ObjectId), OfHandle>,
    /// Handles to be given back, later or once more.
    pub unreturned: Returns,
    /// What was asked of other control planes, by token.
    waiting: HashMap<u64, Waiting>,
    asks: PerNode,
    returns: PerNode,
    last_token: u64,
}

/// How urgent is what is done by a handle.
#[derive(Clone, Copy, Default, Debug)]
pub struct OfHandle {
    /// By the rules.
    pub most: Class,
    /// By the program's word, within that.
    pub chosen: Class,
}

/// A request to another control plane.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Who waits; nobody where something was only given back.
    pub session: Option<ObjectId>,
    /// When it is told that the node does not answer.
    pub until_ns: u64,
    /// Who was asked.
    pub peer: PeerNode,
    /// As whom.
    pub user: u32,
    /// Whether as a restricted program.
    pub is_restricted: bool,
    /// For what.
    pub wanted: Wanted,
    /// How urgent is what will be done by the handle.
    pub class: Class,
    /// The handle that is given back by it, if it is only that.
    pub returned: Option<Return>,
}

/// What the answer is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A handle.
    Handle,
    /// The region of a handle that the session has.
    Of(ObjectId),
    /// The end of the region of such a handle.
    End(ObjectId),
    /// Nothing but what is answered.
    Answer,
    /// What a region that leaves for that node needs there.
    Departure(ObjectId),
}

impl Across {
    /// Nothing yet; the page is that of this node's regions.
    pub fn new(page: &Arc<SharedMapping>, handles: Shares) -> Across {
        Across {
            users: PeerSessions::default(),
            holds: Arc::new(PeerHolds::new(page.clone())),
            remotes: Remotes::new(REMOTE_HANDLES_MAX, handles),
            classes: HashMap::new(),
            unreturned: Returns::default(),
            waiting: HashMap::new(),
            asks: PerNode::new(WAITING_MAX, WAITING_PER_NODE_MAX),
            returns: PerNode::new(RETURNS_MAX, RETURNS_PER_NODE_MAX),
            last_token: 0,
        }
    }

    /// Whether a session may ask a node something.
    pub fn may_ask(&self, node: u64) -> bool {
        self.asks.full(node).is_none()
    }

    /// Whether a handle may be given back to a node now.
    pub fn may_return(&self, node: u64) -> bool {
        self.returns.full(node).is_none()
    }

    /// Keeps a request, and names it.
    pub fn wait(&mut self, waiting: Waiting) -> u64 {
        self.last_token += 1;
        self.counts(&waiting).add(waiting.peer.node.0);
        self.waiting.insert(self.last_token, waiting);
        self.last_token
    }

    /// A number for a message that no session waits for.
    pub fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// A request has ended, or was not made.
    pub fn end(&mut self, token: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&token)?;
        self.counts(&waiting).remove(waiting.peer.node.0);
        Some(waiting)
    }

    fn counts(&mut self, waiting: &Waiting) -> &mut PerNode {
        if waiting.returned.is_some() {
            &mut self.returns
        } else {
            &mut self.asks
        }
    }

    /// How many of a session's handles are of each class that is not normal, by its word.
    pub fn classes_of(&self, session: ObjectId) -> BTreeMap<&'static str, usize> {
        let mut count = BTreeMap::new();
        for (_, of) in self.classes.iter().filter(|((its, _), _)| *its == session) {
            *count.entry(of.chosen.word()).or_default() += 1;
        }
        count
    }

    /// A session waits for nothing any more; whether it did.
    pub fn give_up(&mut self, session: ObjectId) -> bool {
        let all = self.waiting.values_mut();
        let its = all.filter(|it| it.session == Some(session));
        its.map(|waiting| waiting.session = None).count() > 0
    }

    /// Sessions whose time to wait is over; they wait no more.
    pub fn expire(&mut self, now_ns: u64) -> Vec<ObjectId> {
        let all = self.waiting.values_mut();
        let late = all.filter(|it| it.until_ns <= now_ns);
        late.filter_map(|waiting| waiting.session.take()).collect()
    }

    /// When there is something to do because time went by.
    pub fn next_ns(&self) -> Option<u64> {
        let all = self.waiting.values().filter(|it| it.session.is_some());
        all.map(|waiting| waiting.until_ns).chain(self.unreturned.next_ns()).min()
    }
}
