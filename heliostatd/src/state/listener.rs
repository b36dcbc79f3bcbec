//! Shared listeners: who takes part, the sockets, and the thread that accepts.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use heliostat_abi::name::ObjectId;
use heliostat_control::config::Config;
use heliostat_server_listener::{Balancer, Foreign};
use heliostat_service_grant::{Holder, Shares, Used};
use heliostat_service_listener::{Effect, Listeners};

use crate::shares;

/// What the daemon keeps of shared listeners.
pub struct SharedListeners {
    /// Who takes part.
    pub grants: Listeners,
    /// The first listening socket of each, for who could not bind the address.
    pub sockets: HashMap<ObjectId, Rc<Foreign>>,
    /// The thread, once there was a listener.
    balancer: Option<Balancer>,
    /// Connections that nobody has taken.
    held: Shares,
}

impl SharedListeners {
    /// None yet.
    pub fn new(config: &Config) -> SharedListeners {
        let grants = Listeners::new(shares::listeners(config));
        let held = shares::held_connections(config);
        SharedListeners { grants, sockets: HashMap::new(), balancer: None, held }
    }

    /// Takes new limits over.
    pub fn set_limits(&mut self, config: &Config) {
        self.grants.set_limits(shares::listeners(config));
        self.held = shares::held_connections(config);
        self.balancer.iter().for_each(|balancer| balancer.set_held(self.held));
    }

    /// Ends listeners that have been without workers for long enough.
    pub fn pass_time(&mut self, now_ns: u64, effects: &mut Vec<Effect>) {
        let view = |id| self.balancer.as_ref().and_then(|balancer| balancer.view(id));
        let holds = |id| view(id).is_some_and(|it| it.held > 0);
        self.grants.pass_time(now_ns, holds, effects);
    }

    /// Connections that nobody has taken.
    pub fn held(&self, holder: Holder) -> Used {
        self.balancer.as_ref().map_or_else(Used::default, |balancer| balancer.held(holder))
    }

    /// The thread, started now if it was not.
    ///
    /// # Errors
    /// The kernel has no descriptor or no thread for it.
    pub fn started(&mut self) -> io::Result<&Balancer> {
        if self.balancer.is_none() {
            self.balancer = Some(Balancer::start(self.held)?);
        }
        self.balancer.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The thread, where it is there.
    pub fn balancer(&self) -> Option<&Balancer> {
        self.balancer.as_ref()
    }
}
