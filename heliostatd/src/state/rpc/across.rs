//! Functions between nodes: users of other nodes here, what this node's sessions found there, and what
//! is asked.

use heliostat_abi::code::Thing;
use heliostat_server_node::{Orders, PeerNode};
use heliostat_server_rpc::PeerCalls;
use heliostat_service_grant::PeerSessions;
use heliostat_service_rpc::{Limits, Remote, Remotes, Uses};

use crate::state::asks::{Ask, AskLimits, Asks, Waiter};
use crate::state::returns::{Return, Returns};

/// Requests of sessions to other control planes that have no answer, and functions that are being given
/// back.
const LIMITS: AskLimits = AskLimits { asks: (1024, 64), returns: (512, 32) };

/// What the daemon keeps of functions between nodes.
pub struct Across {
    /// Users of other nodes, as sessions.
    pub users: PeerSessions,
    /// How often each has found which function.
    pub uses: Uses,
    /// Functions of other nodes that sessions of this one have.
    pub remotes: Remotes,
    /// The way to the node's thread, if there is one.
    pub hosted: Option<Orders<PeerCalls>>,
    /// Functions to be given back, later or once more.
    pub unreturned: Returns<Remote>,
    /// What was asked of other control planes.
    pub asks: Asks<Waiting>,
}

/// A request to another control plane.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Who waits; nobody where a function was only given back.
    pub waiter: Option<Waiter>,
    /// Who was asked.
    pub peer: PeerNode,
    /// As whom.
    pub user: u32,
    /// Whether for a function, and not for a list.
    pub wants_function: bool,
    /// The function that is given back by it, if it is only that.
    pub returned: Option<Return<Remote>>,
}

impl Across {
    /// Nothing yet.
    pub fn new(limits: Limits) -> Across {
        let Limits { functions_per_session, functions } = limits;
        Across {
            users: PeerSessions::default(),
            uses: Uses::default(),
            remotes: Remotes::new(Thing::Functions, functions_per_session, functions),
            hosted: None,
            unreturned: Returns::default(),
            asks: Asks::new(LIMITS),
        }
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
