//! Delegated sockets: the loops that have them, whose sessions they serve, and what is confined.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_control::config::Config;
use heliostat_server_loop::{Event, Events, Loops, NewSession, Order, Settings};
use heliostat_server_socket::{Budget, Guest, Listeners, SocketOrder, Sockets, Watch};
use heliostat_service_grant::{Holder, Quota, Shares};
use heliostat_service_socket::Confined;
use rustix::event::{eventfd, EventfdFlags};

use crate::shares;

/// What the daemon keeps of delegated sockets.
pub struct DelegatedSockets {
    /// Sessions that are confined, or will be.
    pub confined: HashMap<ObjectId, Confined>,
    /// Folders that are held for them: a descriptor each.
    pub folders: Quota,
    /// How many of them a session has, and whose they are.
    folders_of: HashMap<ObjectId, (Holder, u64)>,
    /// The loops, once somebody has asked for them.
    pub server: Option<SocketLoops>,
    /// Sockets of the node.
    whole: Arc<Budget>,
    /// Sockets of each user that has had some.
    of_users: HashMap<u32, Arc<Budget>>,
}

impl DelegatedSockets {
    /// There are none yet.
    pub fn new(config: &Config) -> DelegatedSockets {
        let whole = Budget::new(shares::sockets(config).all, None);
        let folders = Quota::new(shares::confined_folders(config));
        let (confined, of_users, folders_of) = Default::default();
        DelegatedSockets { confined, folders, folders_of, server: None, whole, of_users }
    }

    /// A session keeps one more folder within reach.
    pub fn count_folder(&mut self, id: ObjectId, holder: Holder) {
        let (holder, count) = self.folders_of.entry(id).or_insert((holder, 0));
        *count += 1;
        self.folders.take_anyway(*holder, 1);
    }

    /// A session has ended, with what was within its reach.
    pub fn forget(&mut self, id: ObjectId) {
        self.confined.remove(&id);
        if let Some((holder, count)) = self.folders_of.remove(&id) {
            self.folders.give_back(holder, count);
        }
    }

    /// How many sockets a user may have.
    pub fn budget(&mut self, user: u32, most: u64) -> Arc<Budget> {
        // Of users without sockets nothing need be known.
        self.of_users.retain(|_, budget| budget.used() > 0 || Arc::strong_count(budget) > 1);
        let whole = &self.whole;
        let made = || Budget::new(most, Some(whole.clone()));
        self.of_users.entry(user).or_insert_with(made).clone()
    }

    /// Takes new limits over; `owner` is the control plane's own user.
    pub fn set_limits(&mut self, shares: &Shares, owner: u32) {
        self.whole.set_most(shares.all);
        for (user, budget) in &self.of_users {
            let is_trusted = *user == 0 || *user == owner;
            budget.set_most(if is_trusted { shares.trusted } else { shares.user });
        }
    }

    /// How many sockets there are, and may be.
    pub fn count(&self) -> (u64, u64) {
        (self.whole.used(), self.whole.most())
    }
}

/// A session that is served.
#[derive(Clone, Copy)]
pub struct Served {
    /// By which loop.
    pub loop_number: usize,
    /// Whose share it counts against.
    pub holder: Holder,
}

/// The loops' end in the event loop.
pub struct SocketLoops {
    /// The loops.
    pub loops: Loops<Sockets>,
    /// What they tell.
    pub events: Receiver<Event<Sockets>>,
    /// Rings when there is something.
    pub bell: Arc<OwnedFd>,
    /// Who is served.
    pub sessions: HashMap<ObjectId, Served>,
    /// Whose sessions they are.
    pub quota: Quota,
    /// Listeners that sessions share.
    pub listeners: Arc<Listeners>,
    serial: u64,
}

impl SocketLoops {
    /// Starts them: as many as files have, on whichever cores there are.
    ///
    /// # Errors
    /// What the kernel says of their threads, rings and epoll sets.
    pub fn start(config: &Config) -> std::io::Result<SocketLoops> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, events) = channel();
        let told = Events::new(sender, bell.clone());
        let settings = Settings { loops: config.delegated.loops, cores: Vec::new(), by: None };
        let listeners = Arc::new(Listeners::default());
        // Made before a thread is: there it could not be said that there is no descriptor.
        let sets = (0..settings.loops.max(1)).map(|_| Watch::create());
        let sets = sets.collect::<std::io::Result<Vec<_>>>()?;
        let sets = std::cell::RefCell::new(sets);
        let create = |gates| {
            let watch = sets.borrow_mut().pop();
            Sockets::new(watch, gates, listeners.clone())
        };
        let loops = Loops::start(&settings, &told, create)?;
        let quota = Quota::new(shares::socket_sessions(config));
        let sessions = HashMap::new();
        Ok(SocketLoops { loops, events, bell, sessions, quota, listeners, serial: 0 })
    }

    /// The next number of a session.
    pub fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Takes a session in: the loop with the fewest sessions has it until its end.
    pub fn begin(&mut self, id: ObjectId, holder: Holder, link: NewSession, guest: Guest) {
        let served = self.sessions.values().map(|served| served.loop_number);
        let loop_number = self.loops.least_loaded(served);
        self.quota.take_anyway(holder, 1);
        self.sessions.insert(id, Served { loop_number, holder });
        self.loops.order(loop_number, Order::Begin(id, Box::new(link)));
        self.tell(id, guest);
    }

    /// Tells a session's loop whose it is.
    pub fn tell(&self, id: ObjectId, guest: Guest) {
        if let Some(served) = self.sessions.get(&id) {
            let order = Order::Service(SocketOrder::Guest(id, guest));
            self.loops.order(served.loop_number, order);
        }
    }

    /// A session has ended, or has lost its rights: its sockets are closed.
    pub fn end(&mut self, id: ObjectId) {
        let Some(served) = self.sessions.remove(&id) else { return };
        self.quota.give_back(served.holder, 1);
        self.loops.order(served.loop_number, Order::End(id));
    }
}
