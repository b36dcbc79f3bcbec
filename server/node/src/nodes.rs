//! The owner of a node's thread: starts it, orders it, and ends it when dropped.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use heliostat_abi::cluster::Class;
use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::driver::{self, DriverEnd, Remote, StartError};
use heliostat_backend_transport::error::{CallError, CallFailure};
use heliostat_backend_transport::identity::{Identity, NodeId};
use heliostat_backend_transport::limits::NodeLimits;
use heliostat_backend_transport::node::Node;
use heliostat_backend_transport::transport::{LinkId, Transport};
use heliostat_backend_transport::AskId;
use rustix::rand::{getrandom, GetRandomFlags};

use crate::call::NodeCall;
use crate::caller::Caller;
use crate::event::NodesEvents;
use crate::gate::{Closed, Gate, Order};
use crate::hosted::{host, Orders};
use crate::outgoing::{Answer, Outgoing};
use crate::quality::{Quality, WayState};
use crate::service::Peers;
use crate::thread::{Kept, Ways, Work};

/// The node's thread. Dropped it leaves its peers, which takes half a second at most, and is over.
pub struct Nodes {
    gate: Arc<Gate>,
    events: NodesEvents,
    address: Address,
    identity: Identity,
    limits: NodeLimits,
    quality: Quality,
    /// How the ways to others are, as the thread said last.
    ways: Ways,
    /// Services that were on a thread which broke.
    kept: Kept,
    /// How often it was started anew.
    times: u32,
    thread: Option<JoinHandle<DriverEnd>>,
}

/// Answers what peers asked, from any thread; never waits.
#[derive(Clone)]
pub struct Replies(Arc<Gate>);

/// Why a node was not started.
#[derive(Debug)]
pub enum NotStarted<E> {
    /// The system gave no thread, descriptor or random numbers.
    System(io::Error),
    /// The transport could not be made.
    Transport(E),
}

impl Nodes {
    /// Starts a node. `listen` makes its transport, on the node's own thread.
    ///
    /// # Errors
    /// Nothing is left behind.
    pub fn start<E: Send + 'static>(
        identity: Identity,
        limits: NodeLimits,
        events: NodesEvents,
        listen: impl FnOnce() -> Result<Box<dyn Transport>, E> + Send + 'static,
    ) -> Result<Nodes, NotStarted<E>> {
        let (ways, kept) = (Ways::default(), Kept::default());
        let work = Work::new(events.clone(), ways.clone(), kept.clone());
        let started = Started::make((identity.clone(), limits, 0), work, listen)?;
        let gate = Arc::new(Gate::default());
        gate.open(started.remote);
        let (address, thread) = (started.address, Some(started.thread));
        let quality = Quality::default();
        let times = 0;
        Ok(Nodes { gate, events, address, identity, limits, quality, ways, kept, times, thread })
    }

    /// Starts it anew after its thread has ended ([`NodesEvent::Gone`](crate::NodesEvent::Gone)), as the
    /// same life of the node: services that were on the thread are again, callers reach it again, and
    /// nobody is joined. Nothing happens while the thread runs.
    ///
    /// # Errors
    /// It has ended still.
    pub fn start_again<E: Send + 'static>(
        &mut self,
        listen: impl FnOnce() -> Result<Box<dyn Transport>, E> + Send + 'static,
    ) -> Result<(), NotStarted<E>> {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        let incarnation = self.kept.lock().unwrap_or_else(PoisonError::into_inner).incarnation;
        self.identity.incarnation = incarnation.unwrap_or(self.identity.incarnation);
        let work = Work::new(self.events.clone(), self.ways.clone(), self.kept.clone());
        let started =
            Started::make((self.identity.clone(), self.limits, self.times + 1), work, listen)?;
        self.times += 1;
        // How the one before ended was told.
        let _ = self.thread.replace(started.thread).map(JoinHandle::join);
        self.address = started.address;
        self.gate.open(started.remote);
        self.order(Order::Quality(Box::new(self.quality.clone())));
        Ok(())
    }

    /// What is done for classes from now on.
    pub fn set_quality(&mut self, quality: Quality) {
        if self.quality != quality {
            self.quality = quality;
            self.order(Order::Quality(Box::new(self.quality.clone())));
        }
    }

    /// What is done for classes.
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// How the ways to joined nodes were when the thread last slept, by their numbers.
    pub fn ways(&self) -> BTreeMap<u64, WayState> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where others join this node.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Begins to join a node; `Joined` or `NotJoined` follows, by the deadline at the latest. Of a node
    /// that is joined already, nothing or `NotJoined`.
    pub fn join(&self, node: NodeId, to: Address, deadline_ns: u64) {
        self.order(Order::Join { node, to, deadline_ns });
    }

    /// Leaves a node in order, and gives up joining it; `Lost`, `NotJoined` or both follow if it was
    /// either.
    pub fn leave(&self, node: NodeId) {
        self.order(Order::Leave(node));
    }

    /// Leaves a node in order by this link alone; `Lost` follows if it is still joined by it.
    pub fn leave_link(&self, link: LinkId) {
        self.order(Order::LeaveLink(link));
    }

    /// A registry decides from now on: without a lease that is held nothing is asked of other nodes and
    /// nothing served to them, and to each node only once its link is admitted. The registry's own
    /// service and echoes are not kept back.
    pub fn use_registry(&self) {
        self.order(Order::UseRegistry);
    }

    /// The lease is held until then, by the monotonic clock. At that time the thread leaves every link
    /// by itself, whether or not anybody tells it to.
    pub fn hold(&self, until_ns: u64) {
        self.order(Order::Hold { until_ns });
    }

    /// A node is served by this link from now on; what it asked before is served first.
    pub fn admit(&self, link: LinkId) {
        self.order(Order::Admit(link));
    }

    /// Another life of this node begins: every link is left, and `Lost` or `NotJoined` follows for each.
    pub fn begin_life(&self, incarnation: u64) {
        self.order(Order::BeginLife { incarnation });
    }

    /// Measures how far a node is: `RoundTrip` follows if it is joined.
    pub fn probe(&self, node: NodeId) {
        self.order(Order::Probe(node));
    }

    /// Calls a node as [`Self::call_as`] does, in the class that no rule is about.
    ///
    /// # Errors
    /// As `call_as`.
    pub fn call(&self, token: u64, call: NodeCall) -> Result<(), CallError> {
        self.call_as(Class::Normal, token, call)
    }

    /// Calls a node, in a class; `Answered` with this token follows exactly once, by the deadline at the latest.
    /// How many calls the daemon has waiting is the daemon's to limit.
    ///
    /// # Errors
    /// The call was not made: too long, or the thread has ended.
    pub fn call_as(&self, class: Class, token: u64, call: NodeCall) -> Result<(), CallError> {
        call.check_length()?;
        let gone = call.not_sent(CallFailure::NoPeer);
        let answer = Answer::daemon(call.node, self.events.clone(), token);
        match self.gate.send(Order::Call(Box::new(Outgoing::new(class, call, answer)))) {
            Err(Closed(Order::Call(unsent))) => {
                unsent.answer.forget();
                Err(gone)
            }
            _ => Ok(()),
        }
    }

    /// Takes a service to the node's thread: it serves requests of its number from now on.
    pub fn host<P: Peers + Send + 'static>(&self, number: u16, service: P) -> Orders<P> {
        let (hosted, orders) = host(number, service, self.gate.clone());
        self.order(Order::Host(number, hosted));
        orders
    }

    /// A caller with a limit of its own.
    pub fn caller(&self) -> Caller {
        Caller::new(self.gate.clone())
    }

    /// The way for answers to peers.
    pub fn replies(&self) -> Replies {
        Replies(self.gate.clone())
    }

    fn order(&self, order: Order) {
        // Where nobody takes it the thread has ended, and `Gone` is among the events.
        let _ = self.gate.send(order);
    }
}

/// A thread that has just begun.
struct Started {
    remote: Remote<Order>,
    address: Address,
    thread: JoinHandle<DriverEnd>,
}

impl Started {
    fn make<E: Send + 'static>(
        (identity, limits, times): (Identity, NodeLimits, u32),
        work: Work,
        listen: impl FnOnce() -> Result<Box<dyn Transport>, E> + Send + 'static,
    ) -> Result<Started, NotStarted<E>> {
        let mut seed = [0; 32];
        let drawn = getrandom(&mut seed, GetRandomFlags::empty());
        drawn.map_err(|errno| NotStarted::System(errno.into()))?;
        let (told, address) = channel();
        let make = move || {
            let transport = match listen() {
                Ok(transport) => transport,
                Err(error) => {
                    work.forget();
                    return Err(error);
                }
            };
            // Whoever starts it waits for this.
            let _ = told.send(transport.address());
            Ok((Node::new(transport, identity, limits, seed).numbered_anew(times), work))
        };
        let (remote, thread) = driver::start("node", make).map_err(|error| match error {
            StartError::System(error) => NotStarted::System(error),
            StartError::Node(error) => NotStarted::Transport(error),
        })?;
        let gone = |_| NotStarted::System(io::ErrorKind::BrokenPipe.into());
        let address = address.recv().map_err(gone)?;
        Ok(Started { remote, address, thread })
    }
}

impl Replies {
    /// Answers a request. One whose asker is lost, or that was answered, is ignored; one too long, or
    /// for which too much waits already, becomes a refusal.
    pub fn reply(&self, ask: AskId, header: Vec<u8>, payload: Vec<u8>) {
        // Where nobody takes it the thread has ended, and its peers know.
        let _ = self.0.send(Order::Reply { ask, header, payload });
    }

    /// Says that nothing was done, and will not be.
    pub fn refuse(&self, ask: AskId) {
        // As above.
        let _ = self.0.send(Order::Refuse(ask));
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.gate.close();
        // A thread that broke has told so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<E: fmt::Display> fmt::Display for NotStarted<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStarted::System(error) => error.fmt(f),
            NotStarted::Transport(error) => error.fmt(f),
        }
    }
}
