//! Starts the loops and ends them, and says which of them a new channel gets.

use heliostat_base::sync::Ordering::Relaxed;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_service_grant::{Holder, Shares};
use rustix::event::{eventfd, EventfdFlags};
use tracing::error;

use crate::carrier::Carrier;
use crate::counts::Counts;
use crate::share::CarriedShare;

/// How many loops there are, and where they run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Number of loops, at least one.
    pub loops: usize,
    /// One loop has each of these cores for itself; those beyond share cores with everybody.
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
    /// What it has done.
    pub counts: Arc<Counts>,
    /// The core that it has for itself.
    pub core: Option<usize>,
    orders: Sender<Order>,
    bell: Arc<OwnedFd>,
}

/// The loops. Their threads end with the process: programs whose connections they carry would
/// otherwise be left with nobody.
pub struct NetworkLoops {
    states: Vec<CarrierState>,
    share: Arc<CarriedShare>,
}

/// Loops at most, however many cores programs name.
const LOOPS_MAX: usize = 64;

impl NetworkLoops {
    /// Starts as many as configured.
    ///
    /// # Errors
    /// A thread or a descriptor is not to be had.
    pub fn start(settings: &Settings) -> std::io::Result<Self> {
        let numbers = 0..settings.loops.max(1);
        let share = Arc::new(CarriedShare::new(settings.shares));
        let core = |number: usize| settings.cores.get(number).copied();
        let each = numbers.map(|number| start(number, core(number), &share));
        Ok(Self { states: each.collect::<Result<_, _>>()?, share })
    }

    /// The loop with the fewest connections of those on `cores`, each of which gets one where it has none.
    ///
    /// # Errors
    /// A thread or a descriptor is not to be had, or there are too many loops.
    pub fn on_cores(&mut self, cores: &[usize]) -> std::io::Result<usize> {
        for core in cores.iter().filter(|core| !self.has_core(**core)).collect::<Vec<_>>() {
            if self.states.len() == LOOPS_MAX {
                break;
            }
            self.states.push(start(0, Some(*core), &self.share)?);
        }
        let load = |(_, state): &(usize, &CarrierState)| state.counts.connections.load(Relaxed);
        let is_one = |state: &CarrierState| state.core.is_some_and(|core| cores.contains(&core));
        let found = self.states.iter().enumerate().filter(|(_, state)| is_one(state));
        let least = found.min_by_key(load).map(|(number, _)| number);
        least.ok_or_else(|| std::io::ErrorKind::QuotaExceeded.into())
    }

    /// Who has how many of the connections that are carried.
    pub fn share(&self) -> &CarriedShare {
        &self.share
    }

    /// Whether a loop has this core.
    pub fn has_core(&self, core: usize) -> bool {
        self.states.iter().any(|state| state.core == Some(core))
    }

    /// Each loop, by number.
    pub fn each(&self) -> &[CarrierState] {
        &self.states
    }

    /// The loop with the fewest connections.
    pub fn least_loaded(&self) -> usize {
        let load = |state: &CarrierState| state.counts.connections.load(Relaxed);
        let least = self.states.iter().enumerate().min_by_key(|(_, state)| load(state));
        least.map_or(0, |(number, _)| number)
    }

    /// Gives a loop an order.
    pub fn order(&self, number: usize, order: Order) {
        if let Some(state) = self.states.get(number) {
            let _ = state.orders.send(order);
            let _ = rustix::io::write(&state.bell, &1u64.to_ne_bytes());
        }
    }
}

fn start(
    number: usize,
    core: Option<usize>,
    share: &Arc<CarriedShare>,
) -> std::io::Result<CarrierState> {
    let (orders, taken) = channel();
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let counts = Arc::new(Counts::default());
    let carrier = Carrier::create(taken, bell.clone(), counts.clone(), share.clone())?;
    let thread = std::thread::Builder::new().name(format!("heliostat-net-{number}"));
    thread.spawn(move || {
        let core = core.filter(|core| pins(*core));
        carrier.run(core.is_some());
    })?;
    Ok(CarrierState { counts, core, orders, bell })
}

/// Whether this thread now runs on that core only.
fn pins(core: usize) -> bool {
    let pinned = heliostat_base::affinity::pin(core);
    if let Err(errno) = pinned {
        error!(core, %errno, "a loop of the network service shares: it cannot have its core");
    }
    pinned.is_ok()
}
