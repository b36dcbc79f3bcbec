//! Starts loops and ends them, and says which of them a new channel gets.
//!
//! A loop moves bytes by calls that take the kernel's lock of a socket, and the program that handed the
//! socket over has it still. By a call of its own that faults in memory whose faults it answers itself
//! it holds that lock for as long as it pleases, and no flag (MSG_DONTWAIT) keeps the loop from waiting
//! for it. So nobody shares a loop with others: each user, and each sealed program, has loops of its own,
//! so many of those that there may be. Who has none left is refused, and goes on natively.

use heliostat_base::sync::Ordering::Relaxed;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;

use heliostat_abi::code::Side;
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_service_grant::{Exceeded, Holder, Quota, Shares};
use rustix::event::{eventfd, EventfdFlags};
use tracing::error;

use crate::carrier::Carrier;
use crate::counts::Counts;
use crate::share::CarriedShare;

/// How many loops there are, and where they run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Number of loops that an owner of connections has, at least one.
    pub loops: usize,
    /// One loop of each owner has each of these cores; those beyond share cores with everybody.
    pub cores: Vec<usize>,
    /// Connections that all loops carry, and one user: each has two descriptors.
    pub shares: Shares,
}

/// A channel, for a loop to carry its connections.
pub struct NewChannel {
    /// As the control plane names it.
    pub id: ObjectId,
    /// Whose it is.
    pub session: ObjectId,
    /// Whose share its connections count against.
    pub holder: Holder,
    /// Its memory.
    pub memory: Arc<SharedMapping>,
    /// Streams in it.
    pub slots: u32,
    /// Bytes of one direction's ring.
    pub ring_bytes: u32,
    /// The loop's end of its link, which does not wait.
    pub link: OwnedFd,
    /// Closes what its session has shown, wherever that may wait.
    pub close: Box<dyn Fn(OwnedFd) + Send>,
}

/// What the control plane tells a loop.
pub enum Order {
    /// To carry a channel's connections.
    Carry(NewChannel),
    /// Nothing new comes over this channel; its connections go back to the program at once where they
    /// are `revoked`, and else on to their end.
    End {
        /// Which.
        id: ObjectId,
        /// The grant has ended, and its program lives.
        revoked: bool,
    },
}

/// One loop, as the control plane knows it.
pub struct CarrierState {
    /// Its name, which no other loop has had.
    pub name: u64,
    /// What it has done.
    pub counts: Arc<Counts>,
    /// The core that it has for itself.
    pub core: Option<usize>,
    owner: Holder,
    /// Of those that were told to it and have not ended.
    channels: usize,
    given: u64,
    orders: Sender<Order>,
    bell: Arc<OwnedFd>,
    thread: JoinHandle<()>,
}

/// The loops. One ends where others need its place and it has nothing; the rest with the process:
/// programs whose connections they carry would otherwise be left with nobody.
pub struct NetworkLoops {
    states: Vec<CarrierState>,
    /// Those that are to end, and whose they were.
    ending: Vec<(Holder, JoinHandle<()>)>,
    settings: Settings,
    share: Arc<CarriedShare>,
    last_name: u64,
}

/// Why an owner gets no loop.
#[derive(Debug)]
pub enum NoLoop {
    /// There are as many as there may be.
    Full(Exceeded),
    /// Its own are behind by so many orders.
    Behind(u64),
    /// A thread or a descriptor is not to be had.
    System(io::Error),
}

/// Loops, however many users there are and cores they name.
const LOOPS: Shares = Shares { all: 64, reserve: 16, user: 8, trusted: 48, sealed: 1 };
/// A loop that is behind by so many orders gets no other channel.
const ORDERS_MAX: u64 = 128;

impl NetworkLoops {
    /// None yet.
    pub fn new(settings: Settings) -> Self {
        let share = Arc::new(CarriedShare::new(settings.shares));
        Self { states: Vec::new(), ending: Vec::new(), settings, share, last_name: 0 }
    }

    /// The loop with the fewest connections of this owner's, which are started where it has none.
    ///
    /// # Errors
    /// It has none, and gets none, or all of its own are behind.
    pub fn of(&mut self, owner: Holder) -> Result<u64, NoLoop> {
        if !self.states.iter().any(|state| state.owner == owner) {
            let cores = self.settings.cores.clone();
            for number in 0..self.settings.loops.max(1) {
                let started = self.start(owner, cores.get(number).copied(), &cores);
                if number == 0 {
                    started?;
                }
            }
        }
        self.least_loaded(|state| state.owner == owner).ok_or(NoLoop::Behind(ORDERS_MAX))
    }

    /// Who has how many of the connections that are carried.
    pub fn share(&self) -> &CarriedShare {
        &self.share
    }

    /// The loop with the fewest connections of this owner's on `cores`, each of which gets one where it
    /// has none.
    ///
    /// # Errors
    /// It has none there, and gets none, or all of its own are behind.
    pub fn on_cores(&mut self, owner: Holder, cores: &[usize]) -> Result<u64, NoLoop> {
        let mut refused = NoLoop::Behind(ORDERS_MAX);
        let is_its = |state: &CarrierState, core| state.owner == owner && state.core == Some(core);
        for core in cores {
            if !self.states.iter().any(|state| is_its(state, *core)) {
                match self.start(owner, Some(*core), cores) {
                    Err(full @ NoLoop::Full(_)) => {
                        refused = full;
                        break;
                    }
                    other => other?,
                }
            }
        }
        self.least_loaded(|state| cores.iter().any(|core| is_its(state, *core))).ok_or(refused)
    }

    /// Whether somebody's loop has this core.
    pub fn has_core(&self, core: usize) -> bool {
        self.settings.cores.contains(&core) || self.states.iter().any(|it| it.core == Some(core))
    }

    /// Each loop.
    pub fn each(&self) -> &[CarrierState] {
        &self.states
    }

    fn least_loaded(&self, is_meant: impl Fn(&CarrierState) -> bool) -> Option<u64> {
        let load = |state: &&CarrierState| state.counts.connections.load(Relaxed);
        let meant = self.states.iter().filter(|state| is_meant(state) && !state.is_behind());
        meant.min_by_key(load).map(|state| state.name)
    }

    /// Gives a loop an order.
    pub fn order(&mut self, name: u64, order: Order) {
        let Some(state) = self.states.iter_mut().find(|state| state.name == name) else { return };
        match order {
            Order::Carry(_) => state.channels += 1,
            Order::End { .. } => state.channels = state.channels.saturating_sub(1),
        }
        state.given += 1;
        let _ = state.orders.send(order);
        let _ = rustix::io::write(&state.bell, &1u64.to_ne_bytes());
    }

    /// Starts one more for an owner, if it may have that, and there is place or somebody's is idle. Those
    /// that the owner has on `wanted` cores, or on any, stay.
    fn start(
        &mut self,
        owner: Holder,
        core: Option<usize>,
        wanted: &[usize],
    ) -> Result<(), NoLoop> {
        if let Err(exceeded) = self.taken().check(owner, 1) {
            if self.takes_over(owner, core) {
                return Ok(());
            }
            let is_wanted = |state: &CarrierState| {
                state.owner == owner && state.core.is_none_or(|core| wanted.contains(&core))
            };
            let fills = |state: &CarrierState| match exceeded.side {
                Side::Node => true,
                Side::User => state.owner.uid == owner.uid,
                _ => state.owner == owner,
            };
            self.end_all(|state| fills(state) && !is_wanted(state) && state.is_idle());
            self.taken().check(owner, 1).map_err(NoLoop::Full)?;
        }
        self.last_name += 1;
        let state = start(self.last_name, owner, core, &self.share).map_err(NoLoop::System)?;
        self.states.push(state);
        Ok(())
    }

    /// Who has how many of them: those that somebody keeps from ending are still its own.
    fn taken(&mut self) -> Quota {
        self.ending.retain(|(_, thread)| !thread.is_finished());
        let mut taken = Quota::new(LOOPS);
        self.states.iter().for_each(|state| taken.take_anyway(state.owner, 1));
        self.ending.iter().for_each(|(owner, _)| taken.take_anyway(*owner, 1));
        taken
    }

    /// Gives an owner one that has nothing, where only places are lacking, and not its share.
    fn takes_over(&mut self, owner: Holder, core: Option<usize>) -> bool {
        let mut taken = self.taken();
        let is_fit = |state: &&mut CarrierState| state.core == core && state.is_idle();
        let Some(state) = self.states.iter_mut().find(is_fit) else { return false };
        taken.give_back(state.owner, 1);
        let may = taken.check(owner, 1).is_ok();
        if may {
            state.owner = owner;
        }
        may
    }

    /// Ends those of which that is true: they have to be idle.
    fn end_all(&mut self, is_to_end: impl FnMut(&CarrierState) -> bool) {
        let all = std::mem::take(&mut self.states);
        let (idle, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_to_end);
        self.states = others;
        for CarrierState { owner, orders, bell, thread, .. } in idle {
            drop(orders);
            let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
            self.ending.push((owner, thread));
        }
    }
}

impl CarrierState {
    fn is_behind(&self) -> bool {
        self.given.saturating_sub(self.counts.orders.load(Relaxed)) >= ORDERS_MAX
    }

    /// Nobody has anything there, and so nobody keeps it.
    fn is_idle(&self) -> bool {
        let is_told = self.given == self.counts.orders.load(Relaxed);
        self.channels == 0 && is_told && self.counts.connections.load(Relaxed) == 0
    }
}

fn start(
    name: u64,
    owner: Holder,
    core: Option<usize>,
    share: &Arc<CarriedShare>,
) -> io::Result<CarrierState> {
    let (orders, taken) = channel();
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let counts = Arc::new(Counts::default());
    let carrier = Carrier::create(taken, bell.clone(), counts.clone(), share.clone())?;
    let thread = std::thread::Builder::new().name(format!("heliostat-net-{name}"));
    let thread = thread.spawn(move || {
        let core = core.filter(|core| pins(*core));
        carrier.run(core.is_some());
    })?;
    Ok(CarrierState { name, counts, core, owner, channels: 0, given: 0, orders, bell, thread })
}

/// Whether this thread now runs on that core only.
fn pins(core: usize) -> bool {
    let pinned = heliostat_base::affinity::pin(core);
    if let Err(errno) = pinned {
        error!(core, %errno, "a loop of the network service shares: it cannot have its core");
    }
    pinned.is_ok()
}

#[cfg(test)]
#[path = "loops_tests.rs"]
mod tests;
