//! Delegated operations: the server loops, and which session has which of them and what open.

mod held;
mod judge;
mod why;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::By;
use heliostat_control::config::{Delegated as Config, Requests};
use heliostat_control::rules::Rules;
use heliostat_server_file::{Files, Opener, Prober, SharedFiles};
use heliostat_server_loop::{Event, Events, Loops, NewSession, Order, Settings};
use heliostat_service_grant::{Holder, Quota, Shares};
use rustix::event::{eventfd, EventfdFlags};

pub use held::{Held, KnownFile};
use judge::NameRules;
pub use why::Why;

/// The server loops' end in the event loop.
pub struct Delegated {
    /// The loops.
    pub loops: Loops<Files>,
    /// What all of them share of files.
    pub shared: Arc<SharedFiles>,
    /// What they and the openers tell.
    pub events: Receiver<Event<Files>>,
    /// Rings when there are some.
    pub bell: Arc<OwnedFd>,
    /// Opens names.
    pub opener: Opener,
    /// Measures devices.
    pub prober: Prober,
    /// What each session has open.
    pub sessions: HashMap<ObjectId, Held>,
    /// Whose sessions they are.
    pub quota: Quota,
    /// Whose files they have open.
    pub files: Quota,
    /// Number of the last file that was opened, or delegation that began.
    serial: u64,
    /// What names are judged by.
    pub known: NameRules,
}

impl Delegated {
    /// Starts the loops and the openers.
    ///
    /// # Errors
    /// What the kernel says of their threads, rings and memory.
    pub fn start(
        config: &Config,
        shares: (Shares, Shares),
        rules: &Rules,
    ) -> std::io::Result<Delegated> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, receiver) = channel();
        let events = Events::new(sender, bell.clone());
        let opener = Opener::start(events.clone())?;
        let by = match config.requests {
            Requests::Auto => None,
            Requests::Uring => Some(By::Uring),
            Requests::Threads => Some(By::Threads),
        };
        let settings = Settings { loops: config.loops, cores: config.cores.clone(), by };
        let (loops, direct_from) = (config.loops.max(1), config.direct_from_bytes);
        let shared = Arc::new(SharedFiles::create(config.cache_bytes, loops, direct_from)?);
        let create = |gates| Files::new(shared.clone(), gates);
        let loops = Loops::start(&settings, &events, create)?;
        Ok(Delegated {
            prober: Prober::new(loops.by()),
            loops,
            shared,
            events: receiver,
            bell,
            opener,
            sessions: HashMap::new(),
            quota: Quota::new(shares.0),
            files: Quota::new(shares.1),
            serial: 0,
            known: NameRules::new(rules)?,
        })
    }

    /// Takes new limits and rules over.
    pub fn configure(&mut self, (sessions, files): (Shares, Shares), rules: &Rules) {
        self.known.rules = Arc::new(rules.clone());
        self.quota.set_shares(sessions);
        self.files.set_shares(files);
    }

    /// Who has how many sessions that delegate, and how many files.
    pub fn quotas(&self) -> [(Thing, &Quota); 2] {
        [(Thing::Delegations, &self.quota), (Thing::DelegatedFiles, &self.files)]
    }

    /// The next number of a file or a delegation.
    pub fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Takes a session in: the loop with the fewest sessions has it until its end.
    pub fn begin(&mut self, id: ObjectId, holder: Holder, new: NewSession, lends: bool) {
        let served = self.sessions.values().map(|held| held.loop_number);
        let loop_number = self.loops.least_loaded(served);
        self.quota.take_anyway(holder, 1);
        self.sessions.insert(id, Held::on(loop_number, new.serial, lends, holder));
        self.loops.order(loop_number, Order::Begin(id, Box::new(new)));
    }

    /// Takes a file out; its holder has one less.
    pub fn forget_file(&mut self, id: ObjectId, serial: u64) -> Option<KnownFile> {
        let held = self.sessions.get_mut(&id)?;
        let seen = held.files.remove(&serial)?;
        self.files.give_back(held.holder, 1);
        Some(seen)
    }
}
