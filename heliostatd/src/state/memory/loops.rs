//! The server loops of memory regions: which session has which.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_control::config::Memory as Config;
use heliostat_server_loop::{Event, Events, Loops, NewSession, Order, Settings};
use heliostat_server_memory::{Memories, MemoryOrder, Replicated};
use heliostat_server_node::Caller;
use heliostat_service_grant::{Holder, Quota, Shares};
use rustix::event::{eventfd, EventfdFlags};

/// A session that is served.
#[derive(Clone, Copy)]
pub struct Served {
    /// By which loop.
    pub loop_number: usize,
    /// Whose share it counts against.
    pub holder: Holder,
}

/// The loops' end in the event loop.
pub struct MemoryLoops {
    /// The loops; none while the last of them end.
    pub loops: Option<Loops<Memories>>,
    /// Loops that have not said that they are gone.
    pub alive: usize,
    /// What they tell.
    pub events: Receiver<Event<Memories>>,
    /// Rings when there is something.
    pub bell: Arc<OwnedFd>,
    /// Who is served.
    pub sessions: HashMap<ObjectId, Served>,
    /// Whose sessions they are.
    pub quota: Quota,
    serial: u64,
}

impl MemoryLoops {
    /// Starts them. Each that can call other nodes has a caller of its own.
    ///
    /// # Errors
    /// What the kernel says of their threads and rings.
    pub fn start(
        config: &Config,
        shares: Shares,
        page: &Arc<SharedMapping>,
        caller: impl Fn() -> Option<Caller>,
        replicated: Option<&Arc<dyn Replicated>>,
    ) -> std::io::Result<MemoryLoops> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, receiver) = channel();
        let events = Events::new(sender, bell.clone());
        let settings = Settings { loops: config.loops, cores: Vec::new(), by: None };
        let create = |gates| {
            let memories = Memories::new(page.clone(), events.clone());
            let memories = match replicated {
                Some(replicated) => memories.with_replicated(replicated.clone()),
                None => memories,
            };
            match caller() {
                Some(caller) => memories.with_caller(gates, caller),
                None => memories,
            }
        };
        let loops = Loops::start(&settings, &events, create)?;
        Ok(MemoryLoops {
            alive: loops.each().len(),
            loops: Some(loops),
            events: receiver,
            bell,
            sessions: HashMap::new(),
            quota: Quota::new(shares),
            serial: 0,
        })
    }

    /// The next number of a session.
    pub fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Takes a session in: the loop with the fewest sessions has it until its end.
    pub fn begin(&mut self, id: ObjectId, holder: Holder, link: NewSession) {
        let Some(loops) = &self.loops else { return };
        let loop_number = loops.least_loaded(self.sessions.values().map(|it| it.loop_number));
        self.quota.take_anyway(holder, 1);
        self.sessions.insert(id, Served { loop_number, holder });
        loops.order(loop_number, Order::Begin(id, Box::new(link)));
    }

    /// A session has ended, or has lost its rights.
    pub fn end(&mut self, id: ObjectId) {
        let Some(served) = self.sessions.remove(&id) else { return };
        self.quota.give_back(served.holder, 1);
        if let Some(loops) = &self.loops {
            loops.order(served.loop_number, Order::End(id));
        }
    }

    /// Tells all loops something.
    pub fn tell_all(&self, order: impl Fn() -> MemoryOrder) {
        let Some(loops) = &self.loops else { return };
        let numbers = 0..loops.each().len();
        numbers.for_each(|number| loops.order(number, Order::Service(order())));
    }

    /// Tells the loop that serves a session something; whether there is one.
    pub fn tell(&self, session: ObjectId, order: MemoryOrder) -> bool {
        let (Some(loops), Some(served)) = (&self.loops, self.sessions.get(&session)) else {
            return false;
        };
        loops.order(served.loop_number, Order::Service(order));
        true
    }
}
