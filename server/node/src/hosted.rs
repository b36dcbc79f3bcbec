//! Services that live on the node's thread: a request of a peer is answered there, at once.
//!
//! ```text
//! Nodes::host(number, service) --> Orders<P>: any thread orders it something
//! peer's request --> Peers::request --> Reply | Refuse | Forward (to the daemon) | Later
//! ```

use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

use crate::gate::{Gate, Order};
use crate::service::{Asker, Hosted, PeerNode, Peers, Served};

/// The way for orders to a service on the node's thread; never waits.
pub struct Orders<P: Peers> {
    number: u16,
    orders: Sender<P::Order>,
    gate: Arc<Gate>,
}

impl<P: Peers> Orders<P> {
    /// Orders the service something; whether its thread is still there. Orders of one thread are obeyed
    /// in their order, and before calls that it makes later.
    pub fn send(&self, order: P::Order) -> bool {
        self.orders.send(order).is_ok() && self.gate.send(Order::Obey(self.number)).is_ok()
    }
}

impl<P: Peers> Clone for Orders<P> {
    fn clone(&self) -> Self {
        Orders { number: self.number, orders: self.orders.clone(), gate: self.gate.clone() }
    }
}

struct Host<P: Peers> {
    service: P,
    orders: Receiver<P::Order>,
}

/// A service to be taken to the node's thread, and the way for orders to it.
pub(crate) fn host<P: Peers + Send + 'static>(
    number: u16,
    service: P,
    gate: Arc<Gate>,
) -> (Box<dyn Hosted>, Orders<P>) {
    let (sender, orders) = channel();
    (Box::new(Host { service, orders }), Orders { number, orders: sender, gate })
}

impl<P: Peers + Send> Hosted for Host<P> {
    fn request(&mut self, from: Asker, header: &[u8], payload: &[u8]) -> Served {
        // An order that was sent before the request was made is obeyed before it.
        self.obey();
        self.service.request(from, header, payload)
    }

    fn obey(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            self.service.order(order);
        }
    }

    fn lost(&mut self, peer: PeerNode) {
        self.service.lost(peer);
    }
}
