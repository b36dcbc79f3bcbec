//! Memory between nodes: users of other nodes here, this node's handles there, and what is asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use heliostat_abi::cluster::Class;
use heliostat_abi::code::Thing;
use heliostat_abi::memory::peer::REMOTE_HANDLES_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_memory::PeerHolds;
use heliostat_server_node::PeerNode;
use heliostat_service_grant::{PeerSessions, Shares};
use heliostat_service_memory::{Remote, Remotes};

use crate::state::asks::{Ask, AskLimits, Asks, Waiter};
use crate::state::returns::{Return, Returns};

/// Requests to other control planes that have no answer: one of each session, and those that their
/// sessions have given up. The daemon's calls are 4,096; so some are left to give handles back.
const LIMITS: AskLimits = AskLimits { asks: (2048, 256), returns: (1024, 128) };

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
    pub unreturned: Returns<Remote>,
    /// What was asked of other control planes.
    pub asks: Asks<Waiting>,
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
    pub waiter: Option<Waiter>,
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
    pub returned: Option<Return<Remote>>,
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
            remotes: Remotes::new(Thing::MemoryHandles, REMOTE_HANDLES_MAX, handles),
            classes: HashMap::new(),
            unreturned: Returns::default(),
            asks: Asks::new(LIMITS),
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

    /// When there is something to do because time went by.
    pub fn next_ns(&mut self) -> Option<u64> {
        self.asks.next_ns().into_iter().chain(self.unreturned.next_ns()).min()
    }
}

impl Ask for Waiting {
    fn node(&self) -> u64 {
        self.peer.node.0
    }

    fn is_return(&self) -> bool {
        self.returned.is_some()
    }

    fn waiter(&mut self) -> &mut Option<Waiter> {
        &mut self.waiter
    }
}
