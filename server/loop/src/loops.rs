//! Starts the server loops and ends them, and says which of them a new session gets.

use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use heliostat_abi::file::delegated::SESSIONS_MAX;
use heliostat_backend_uring::By;
use tracing::error;

use super::bell::Bell;
use super::counts::Counts;
use super::engine::{DeviceShares, Engine};
use super::message::{Event, Events, Gate, Order};
use super::server::{Inbox, Server};
use super::service::Service;

/// How long a loop stays awake with nothing to do. It must exceed a wake-up's time.
const SPIN_NS: u64 = 50_000;
/// The same on a core that the loop has for itself.
const SPIN_ALONE_NS: u64 = 1_000_000;
/// The same while the device has requests: a program's answer to a completion comes sooner, and a
/// virtual machine's core that looks takes time from whoever plays the device.
const SPIN_FLYING_NS: u64 = 15_000;

/// How many loops there are, and where they run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Number of loops, at least one.
    pub loops: usize,
    /// One loop has each of these cores for itself; those beyond share cores with everybody.
    pub cores: Vec<usize>,
    /// How requests to the kernel are made; by what the kernel gives if nothing is said.
    pub by: Option<By>,
}

/// One loop, as the control plane knows it.
pub struct LoopState {
    /// What it has done.
    pub counts: Arc<Counts>,
    /// The core that it has for itself.
    pub core: Option<usize>,
}

/// The server loops. Dropped, they end.
pub struct Loops<S: Service> {
    gates: Arc<[Gate<S>]>,
    states: Vec<LoopState>,
    by: By,
}

/// What a loop's thread is started with.
struct Start<S: Service> {
    number: usize,
    core: Option<usize>,
    inbox: Inbox<S>,
    device: Arc<DeviceShares>,
    events: Events<S>,
    by: By,
}

impl<S: Service + Send> Loops<S> {
    /// Starts as many as configured. Waits until each can make requests. `create` makes the
    /// service's part for each loop, by number and with the gates of all.
    ///
    /// # Errors
    /// A thread or an eventfd is not to be had, or neither way to make requests to the kernel.
    pub fn start(
        settings: &Settings,
        events: &Events<S>,
        create: impl Fn(Arc<[Gate<S>]>) -> S,
    ) -> std::io::Result<Loops<S>> {
        let mut gates = Vec::new();
        let mut inboxes = Vec::new();
        for _ in 0..settings.loops.max(1) {
            let (sender, orders) = channel();
            let bell = Bell::create()?;
            gates.push(Gate::new(sender, bell.clone()));
            inboxes.push((orders, bell));
        }
        let gates: Arc<[Gate<S>]> = gates.into();
        let device = Arc::new(DeviceShares::new(gates.len()));
        let by = settings.by.unwrap_or_else(By::available);
        let mut loops = Loops { gates: gates.clone(), states: Vec::new(), by };
        for (number, (orders, bell)) in inboxes.into_iter().enumerate() {
            let start = Start {
                number,
                core: settings.cores.get(number).copied(),
                inbox: Inbox { orders, bell, spin_ns: SPIN_NS, spin_flying_ns: SPIN_FLYING_NS },
                device: device.clone(),
                events: events.clone(),
                by,
            };
            loops.states.push(start.spawn(create(gates.clone()))?);
        }
        Ok(loops)
    }
}

impl<S: Service> Loops<S> {
    /// Each loop, by number.
    pub fn each(&self) -> &[LoopState] {
        &self.states
    }

    /// How they make requests to the kernel.
    pub fn by(&self) -> By {
        self.by
    }

    /// Sessions that all of them may have: each has the bells of its own watched.
    pub fn sessions_max(&self) -> usize {
        self.by.words_max().saturating_mul(self.states.len()).min(SESSIONS_MAX)
    }

    /// The loop with the fewest sessions, of those that `served` names for each session.
    pub fn least_loaded(&self, served: impl Iterator<Item = usize>) -> usize {
        let mut loads = vec![0usize; self.states.len()];
        served.for_each(|number| loads.get_mut(number).into_iter().for_each(|load| *load += 1));
        let least = loads.iter().enumerate().min_by_key(|(_, load)| **load);
        least.map_or(0, |(number, _)| number)
    }

    /// The end at which a loop takes orders, for another thread.
    pub fn gate(&self, number: usize) -> Option<Gate<S>> {
        self.gates.get(number).cloned()
    }

    /// Gives a loop an order.
    pub fn order(&self, number: usize, order: Order<S>) {
        if let Some(gate) = self.gates.get(number) {
            gate.send(order);
        }
    }
}

impl<S: Service> Drop for Loops<S> {
    fn drop(&mut self) {
        self.gates.iter().for_each(|gate| gate.send(Order::Stop));
    }
}

impl<S: Service + Send> Start<S> {
    fn spawn(self, service: S) -> std::io::Result<LoopState> {
        let counts = Arc::new(Counts::default());
        let counted = counts.clone();
        let (started, answer) = channel();
        let thread = std::thread::Builder::new().name(format!("server-loop-{}", self.number));
        thread.spawn(move || {
            let _end = Farewell(self.events.clone());
            let core = self.core.filter(|core| pins(*core));
            let inbox = match core {
                Some(_) => {
                    Inbox { spin_ns: SPIN_ALONE_NS, spin_flying_ns: SPIN_ALONE_NS, ..self.inbox }
                }
                None => self.inbox,
            };
            let engine =
                Engine::create(self.number, service, counted, self.device, self.events, self.by);
            let _ = started.send(engine.as_ref().map(|_| core).map_err(std::io::Error::to_string));
            if let Ok(engine) = engine {
                Server::new(engine, inbox).run();
            }
        })?;
        Ok(LoopState { counts, core: wait_for(&answer)? })
    }
}

/// Whether this thread now runs on that core only. One that cannot shares the cores with everybody,
/// and must not stay awake as if it had one.
fn pins(core: usize) -> bool {
    let pinned = heliostat_base::affinity::pin(core);
    if let Err(errno) = pinned {
        error!(core, %errno, "a server loop shares: it cannot have its core");
    }
    pinned.is_ok()
}

/// A loop only makes its way to the kernel before it answers.
fn wait_for(answer: &Receiver<Result<Option<usize>, String>>) -> std::io::Result<Option<usize>> {
    match answer.recv() {
        Ok(Ok(core)) => Ok(core),
        Ok(Err(error)) => Err(std::io::Error::other(error)),
        Err(_) => Err(std::io::Error::other("its thread has ended")),
    }
}

/// Tells that a loop's thread has ended, in whatever way.
struct Farewell<S: Service>(Events<S>);

impl<S: Service> Drop for Farewell<S> {
    fn drop(&mut self) {
        self.0.send(Event::Gone);
    }
}
