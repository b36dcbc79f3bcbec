//! Shared listeners: who takes part, the sockets, and the threads that accept.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;
use heliostat_control::config::Config;
use heliostat_server_listener::{Balancer, Ending, Foreign, HeldShares, ListenerState, Owner};
use heliostat_service_grant::{Exceeded, Holder, Quota, Shares, Used};
use heliostat_service_listener::{Effect, Listeners};

use crate::shares;

/// What the daemon keeps of shared listeners.
pub struct SharedListeners {
    /// Who takes part.
    pub grants: Listeners,
    /// The first listening socket of each, for who could not bind the address.
    pub sockets: HashMap<ObjectId, Rc<Foreign>>,
    /// The thread of each.
    threads: HashMap<ObjectId, Balancer>,
    /// Threads of listeners that have ended. One that a worker keeps is its owner's until it lets go.
    ending: Vec<Ending>,
    /// How many threads there may be.
    threads_max: Shares,
    /// Connections that nobody has taken, and what threads have still to let go of.
    held: HeldShares,
}

impl SharedListeners {
    /// None yet.
    pub fn new(config: &Config) -> SharedListeners {
        SharedListeners {
            grants: Listeners::new(shares::listeners(config)),
            sockets: HashMap::new(),
            threads: HashMap::new(),
            ending: Vec::new(),
            threads_max: shares::listeners(config).listeners,
            held: HeldShares::new(shares::held_connections(config)),
        }
    }

    /// Takes new limits over.
    pub fn set_limits(&mut self, config: &Config) {
        self.grants.set_limits(shares::listeners(config));
        self.threads_max = shares::listeners(config).listeners;
        self.held.set_shares(shares::held_connections(config));
    }

    /// Ends listeners that have been without workers for long enough.
    pub fn pass_time(&mut self, now_ns: u64, effects: &mut Vec<Effect>) {
        let threads = &self.threads;
        let holds = |id| threads.get(&id).is_some_and(|thread| thread.view().held > 0);
        self.grants.pass_time(now_ns, holds, effects);
    }

    /// Connections that nobody has taken, and what threads have still to let go of.
    pub fn held(&self, holder: Holder) -> Used {
        self.held.used(holder)
    }

    /// Whether a holder may have one more thread: those that it keeps from ending count.
    pub fn check_threads(&mut self, holder: Holder) -> Result<(), Exceeded> {
        self.ending.retain(|ending| !ending.is_over());
        let mut taken = Quota::new(self.threads_max);
        let all = self.threads.values().map(Balancer::holder);
        let all = all.chain(self.ending.iter().map(|ending| ending.holder));
        all.for_each(|holder| taken.take_anyway(holder, 1));
        taken.check(holder, 1)
    }

    /// Starts the thread of a new listener.
    ///
    /// # Errors
    /// The kernel has no descriptor or no thread for it.
    pub fn start(&mut self, id: ObjectId, owner: Owner, rule: Rule) -> io::Result<&Balancer> {
        let thread = Balancer::start(id, owner, rule, self.held.clone())?;
        Ok(self.threads.entry(id).insert_entry(thread).into_mut())
    }

    /// The thread of a listener that is there.
    ///
    /// # Errors
    /// It could not be started.
    pub fn thread(&self, id: ObjectId) -> io::Result<&Balancer> {
        self.threads.get(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// What people are told of a listener.
    pub fn view(&self, id: ObjectId) -> ListenerState {
        self.threads.get(&id).map(Balancer::view).unwrap_or_default()
    }

    /// A listener is given up, and its thread ends when it can.
    pub fn end(&mut self, id: ObjectId) {
        self.sockets.remove(&id);
        if let Some(thread) = self.threads.remove(&id) {
            self.ending.push(thread.end());
        }
    }
}
