//! Remote procedure calls: who serves and calls which function, and the server loop that carries them.
//!
//! One loop, whatever the number of sessions: a call concerns two sessions at once, and on one loop
//! both are at hand. Several loops would have to pass each call and each reply to one another, and a
//! function's lines would have to lie somewhere.

mod across;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_control::config::Config;
use heliostat_server_loop::{Event, Events, Gate, Loops, NewSession, Order, Settings};
use heliostat_server_node::Replies;
use heliostat_server_rpc::{RpcOrder, Rpcs};
use heliostat_service_grant::{Holder, Quota, Shares};
use heliostat_service_rpc::Rpc;
use rustix::event::{eventfd, EventfdFlags};

use crate::shares;

pub use across::{Across, Waiting};

/// What the daemon keeps of remote procedure calls.
pub struct FunctionCalls {
    /// Who serves and calls which function.
    pub grants: Rpc,
    /// The loop, once somebody has asked for it.
    pub server: Option<RpcLoop>,
    /// Functions between nodes.
    pub across: Across,
}

impl FunctionCalls {
    /// There are no functions yet.
    pub fn new(config: &Config) -> FunctionCalls {
        let limits = shares::rpc(config);
        FunctionCalls { grants: Rpc::new(limits), server: None, across: Across::new(limits) }
    }
}

/// The loop's end in the event loop.
pub struct RpcLoop {
    /// The loop.
    pub loops: Loops<Rpcs>,
    /// What it tells.
    pub events: Receiver<Event<Rpcs>>,
    /// Rings when there is something.
    pub bell: Arc<OwnedFd>,
    /// Who is served, and whose share it counts against.
    pub sessions: HashMap<ObjectId, Holder>,
    /// Whose sessions they are.
    pub quota: Quota,
    serial: u64,
}

impl RpcLoop {
    /// Starts it; by `replies` it answers other nodes.
    ///
    /// # Errors
    /// What the kernel says of its thread and ring.
    pub fn start(shares: Shares, replies: Option<Replies>) -> std::io::Result<RpcLoop> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, events) = channel();
        let settings = Settings { loops: 1, cores: Vec::new(), by: None };
        let told = Events::new(sender, bell.clone());
        let create = |gates: Arc<[Gate<Rpcs>]>| match replies.clone() {
            Some(replies) => Rpcs::default().with_nodes(gates.first().cloned(), replies),
            None => Rpcs::default(),
        };
        let loops = Loops::start(&settings, &told, create)?;
        let (sessions, quota) = (HashMap::new(), Quota::new(shares));
        Ok(RpcLoop { loops, events, bell, sessions, quota, serial: 0 })
    }

    /// The next number of a session.
    pub fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Takes a session in.
    pub fn begin(&mut self, id: ObjectId, holder: Holder, link: NewSession) {
        self.quota.take_anyway(holder, 1);
        self.sessions.insert(id, holder);
        self.loops.order(0, Order::Begin(id, Box::new(link)));
    }

    /// A session has ended, or has lost its rights.
    pub fn end(&mut self, id: ObjectId) {
        let Some(holder) = self.sessions.remove(&id) else { return };
        self.quota.give_back(holder, 1);
        self.loops.order(0, Order::End(id));
    }

    /// The way to the loop.
    pub fn gate(&self) -> Option<Gate<Rpcs>> {
        self.loops.gate(0)
    }

    /// Tells the loop something.
    pub fn tell(&self, order: RpcOrder) {
        self.loops.order(0, Order::Service(order));
    }
}
