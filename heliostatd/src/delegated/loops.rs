//! Starts the server loops and ends them, and says which of them a new session gets.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

use heliostat_control::config::Delegated as Settings;
use rustix::event::{eventfd, EventfdFlags};
use tracing::error;

use super::counts::Counts;
use super::engine::Engine;
use super::message::{News, Order};
use super::server::{Inbox, Server};
use super::shared::{Gate, Shared};

/// How long a loop stays awake with nothing to do. It must exceed a wake-up's time.
const SPIN_NS: u64 = 50_000;
/// The same on a core that the loop has for itself.
const SPIN_ALONE_NS: u64 = 1_000_000;
/// The same while the device has requests: a program's answer to a completion comes sooner, and a
/// virtual machine's core that looks takes time from whoever plays the device.
const SPIN_FLYING_NS: u64 = 15_000;

/// How loops, and the opener, tell the event loop something.
pub type Teller = (Sender<News>, Arc<OwnedFd>);

/// The server loops. Dropped, they end.
pub struct Loops {
    /// What they share.
    pub shared: Arc<Shared>,
    /// Each by number: what it has done, and the core that it has for itself.
    pub each: Vec<(Arc<Counts>, Option<usize>)>,
}

impl Loops {
    /// Starts as many as configured. Waits until each has made its io_uring.
    pub fn start(settings: &Settings, teller: &Teller) -> std::io::Result<Loops> {
        let (mut gates, mut inboxes) = (Vec::new(), Vec::new());
        for _ in 0..settings.loops.max(1) {
            let (orders, inbox) = channel();
            let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            gates.push(Gate { orders, bell: bell.clone() });
            inboxes.push((inbox, bell));
        }
        let shared = Arc::new(Shared::create(settings.cache_bytes, gates)?);
        let mut loops = Loops { shared, each: Vec::new() };
        for (number, (orders, bell)) in inboxes.into_iter().enumerate() {
            let core = settings.cores.get(number).copied();
            let (spin_ns, spin_flying_ns) = (SPIN_NS, SPIN_FLYING_NS);
            let inbox = Inbox { orders, bell, spin_ns, spin_flying_ns };
            let started = loops.start_one(number, core, inbox, teller.clone())?;
            loops.each.push(started);
        }
        Ok(loops)
    }

    /// The loop's counts, and the core that it got.
    fn start_one(
        &self,
        number: usize,
        core: Option<usize>,
        inbox: Inbox,
        teller: Teller,
    ) -> std::io::Result<(Arc<Counts>, Option<usize>)> {
        let (shared, counts) = (self.shared.clone(), Arc::new(Counts::default()));
        let counted = counts.clone();
        let (started, answer) = channel();
        let work = move || {
            let _end = Farewell(teller.clone());
            let core = core.filter(|core| takes(*core));
            let inbox = match core {
                Some(_) => Inbox { spin_ns: SPIN_ALONE_NS, spin_flying_ns: SPIN_ALONE_NS, ..inbox },
                None => inbox,
            };
            let engine = Engine::create(number, shared, counted, teller);
            let _ = started.send(engine.as_ref().map(|_| core).map_err(std::io::Error::to_string));
            if let Ok(engine) = engine {
                Server::new(engine, inbox).run();
            }
        };
        let thread = std::thread::Builder::new().name(format!("server-loop-{number}"));
        thread.spawn(work)?;
        Ok((counts, wait_for(&answer)?))
    }

    /// The loop with the fewest sessions, of those that `served` names for each session.
    pub fn least_loaded(&self, served: impl Iterator<Item = usize>) -> usize {
        let mut loads = vec![0usize; self.each.len()];
        served.for_each(|number| loads.get_mut(number).into_iter().for_each(|load| *load += 1));
        let least = loads.iter().enumerate().min_by_key(|(_, load)| **load);
        least.map_or(0, |(number, _)| number)
    }

    /// Gives a loop an order.
    pub fn order(&self, number: usize, order: Order) {
        if let Some(gate) = self.shared.gates.get(number) {
            gate.send(order);
        }
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        self.shared.gates.iter().for_each(|gate| gate.send(Order::Stop));
    }
}

/// Whether this thread now runs on that core only. One that cannot shares the cores with everybody,
/// and must not stay awake as if it had one.
fn takes(core: usize) -> bool {
    let pinned = heliostat_base::affinity::pin(core);
    if let Err(errno) = pinned {
        error!(core, %errno, "a server loop shares: it cannot have its core");
    }
    pinned.is_ok()
}

/// A loop only makes its io_uring before it answers.
fn wait_for(answer: &Receiver<Result<Option<usize>, String>>) -> std::io::Result<Option<usize>> {
    match answer.recv() {
        Ok(Ok(core)) => Ok(core),
        Ok(Err(error)) => Err(std::io::Error::other(error)),
        Err(_) => Err(std::io::Error::other("its thread has ended")),
    }
}

/// Tells that a loop's thread has ended, in whatever way.
struct Farewell(Teller);

impl Drop for Farewell {
    fn drop(&mut self) {
        let _ = self.0 .0.send(News::Gone);
        let _ = rustix::io::write(&self.0 .1, &1u64.to_ne_bytes());
    }
}
