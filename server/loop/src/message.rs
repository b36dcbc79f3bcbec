//! What the control plane and its server loops tell each other.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::Arc;

use heliostat_abi::name::ObjectId;

use super::bell::Bell;
use super::new_session::NewSession;
use super::parts::Parts;

/// To a server loop.
pub enum Order<S: Parts> {
    /// Serve this session from now on.
    Begin(ObjectId, Box<NewSession>),
    /// The session has ended; its memory stays until the device is done with it.
    End(ObjectId),
    /// The service's own.
    Service(S::Order),
    /// Nobody needs the loop any more.
    Stop,
}

/// From a server loop, or from a thread that waits for it.
pub enum Event<S: Parts> {
    /// A session broke the protocol; the text says how.
    Broken(ObjectId, &'static str),
    /// The service's own.
    Service(S::Event),
    /// A server loop has ended.
    Gone,
}

/// The end at which a loop takes orders, from the control plane and from other loops.
pub struct Gate<S: Parts> {
    orders: Sender<Order<S>>,
    bell: Arc<Bell>,
}

impl<S: Parts> Gate<S> {
    /// For a loop that is woken by this bell.
    pub fn new(orders: Sender<Order<S>>, bell: Arc<Bell>) -> Gate<S> {
        Gate { orders, bell }
    }

    /// Gives an order; the loop obeys soon.
    pub fn send(&self, order: Order<S>) {
        // Where nobody takes it the loop has ended, and `Gone` is among the events.
        let _ = self.orders.send(order);
        self.bell.ring();
    }
}

impl<S: Parts> Clone for Gate<S> {
    fn clone(&self) -> Self {
        Gate { orders: self.orders.clone(), bell: self.bell.clone() }
    }
}

/// The end by which loops, and threads that wait for them, tell the control plane something.
pub struct Events<S: Parts> {
    sender: Sender<Event<S>>,
    bell: Arc<OwnedFd>,
}

impl<S: Parts> Events<S> {
    /// For a control plane that is woken by this bell, an eventfd.
    pub fn new(sender: Sender<Event<S>>, bell: Arc<OwnedFd>) -> Events<S> {
        Events { sender, bell }
    }

    /// Tells it; the control plane hears it soon.
    pub fn send(&self, event: Event<S>) {
        // Where nobody listens any more the process is ending.
        let _ = self.sender.send(event);
        // It fails only when the counter is full, and then it rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

impl<S: Parts> Clone for Events<S> {
    fn clone(&self) -> Self {
        Events { sender: self.sender.clone(), bell: self.bell.clone() }
    }
}
