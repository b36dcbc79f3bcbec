//! Whose session it is: what it may reach, and how many sockets it may have.

use std::collections::HashMap;
use std::sync::Arc;

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::listener::Rule;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::socket::Access;
use heliostat_server_loop::PerSession;
use heliostat_service_listener::Member;

use super::budget::Budget;
use super::listener::Listener;
use super::refusals::Refusals;

/// Says whether a session may connect to an address, or listen at it: 0, or the errno.
pub trait Judge: Send + Sync {
    /// Judges one address. Must not wait.
    fn judge(&self, access: Access, address: NetAddress) -> Result<(), i32>;

    /// By which rule connections at an address are shared out, where somebody else than the members
    /// says so.
    fn rule(&self, address: NetAddress) -> Option<Rule> {
        let _ = address;
        None
    }
}

/// A session as the control plane knows it.
#[derive(Clone)]
pub struct Guest {
    /// Its user: listeners are shared among sessions of one.
    pub user: u32,
    /// What it may reach.
    pub judge: Arc<dyn Judge>,
    /// How many sockets it may have, with all others of its user.
    pub budget: Arc<Budget>,
}

/// What a loop keeps for a session.
#[derive(Default)]
pub struct Visit {
    /// None until the control plane has said whose it is.
    pub(crate) guest: Option<Guest>,
    /// What it was refused and nobody has heard of.
    pub(crate) refusals: Refusals,
    /// Connect's operations, and the sockets that they have made already.
    pub(crate) connecting: HashMap<ObjectId, ObjectId>,
    /// Sockets whose connecting was cut short: nobody knows them.
    pub(crate) unknown: Vec<ObjectId>,
    /// Accepts in line, and at which listener they are waited for.
    pub(crate) accepting: HashMap<ObjectId, (Arc<Listener>, Member)>,
}

impl PerSession for Visit {
    fn ended(&mut self, kind: OpKind, operation: ObjectId) {
        match kind {
            OpKind::Connect => self.unknown.extend(self.connecting.remove(&operation)),
            // One that got a connection is not in line any more.
            OpKind::Accept => {
                if let Some((listener, member)) = self.accepting.remove(&operation) {
                    listener.give_up(member);
                }
            }
            _ => {}
        }
    }
}
