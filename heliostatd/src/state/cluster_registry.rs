//! The registry as one node has it: who it is asked for, its lease, and what is counted.

use std::collections::{HashMap, VecDeque};

use heliostat_backend_registry::{Outcome, Registry, WatchId};
use heliostat_server_node::Orders;
use heliostat_server_registry::{Host, HostOrder};
use heliostat_service_cluster::Registration;

/// What the daemon keeps of a registry.
pub struct ClusterRegistry {
    /// By what it is reached.
    pub registry: Box<dyn Registry>,
    /// As the configuration names it.
    pub name: String,
    /// This node in it.
    pub own: Registration,
    /// The one watch, of everything.
    pub watch: Option<WatchId>,
    /// Operations that have not ended, by the number that the registry knows them by.
    pub asked: HashMap<u64, AskedBy>,
    /// Those that were not begun, and what is to be said of them.
    pub not_begun: VecDeque<(AskedBy, Outcome)>,
    /// When the records that this node keeps change by themselves, where it does.
    pub store: Option<heliostat_backend_registry::SharedStore>,
    /// Tells other nodes of that.
    pub host: Option<Orders<Host>>,
    told_revision: u64,
    /// What happened so often.
    pub counts: RegistryCounts,
    /// What was said last about why this node is not registered.
    pub said: Option<String>,
    last: u64,
}

/// Who asks the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskedBy {
    /// This node's registration, by its number.
    Own(u64),
    /// A service, by its number and its token.
    Service(u16, u64),
}

/// What is counted.
#[derive(Clone, Copy, Default)]
pub struct RegistryCounts {
    /// Operations.
    pub operations: u64,
    /// Those that were not done, or may not have been.
    pub failed: u64,
    /// Times that this node was registered.
    pub registered: u64,
    /// Times that it had to stop.
    pub fenced: u64,
    /// Other nodes that were declared dead.
    pub dead: u64,
    /// Records that are none of a member under a member's key.
    pub malformed: u64,
}

impl ClusterRegistry {
    /// A registry that was not asked yet.
    pub fn new(
        registry: Box<dyn Registry>,
        name: String,
        own: Registration,
        store: Option<heliostat_backend_registry::SharedStore>,
    ) -> ClusterRegistry {
        ClusterRegistry {
            registry,
            name,
            own,
            watch: None,
            asked: HashMap::new(),
            not_begun: VecDeque::new(),
            store,
            host: None,
            told_revision: 0,
            counts: RegistryCounts::default(),
            said: None,
            last: 0,
        }
    }

    /// A number for an operation.
    pub fn begin(&mut self, by: AskedBy) -> u64 {
        self.last += 1;
        self.counts.operations += 1;
        self.asked.insert(self.last, by);
        self.last
    }

    /// When time alone has something done.
    pub fn next_ns(&self) -> Option<u64> {
        let store = self.store.as_ref().and_then(|store| store.lock().next_ns());
        [self.own.next_ns(), store, self.registry.next_ns()].into_iter().flatten().min()
    }

    /// Has other nodes told that records changed here, if they did.
    pub fn tell_host(&mut self) {
        let revision = self.store.as_ref().map_or(0, |store| store.lock().revision());
        if revision != self.told_revision {
            self.told_revision = revision;
            // A thread that has ended serves nobody.
            let _ = self.host.as_ref().map(|host| host.send(HostOrder::Look));
        }
    }
}
