//! The one way to the node's thread, which closes when its owner is dropped.

use std::sync::{PoisonError, RwLock};

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::driver::Remote;
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::transport::LinkId;
use heliostat_backend_transport::AskId;

use crate::outgoing::Outgoing;
use crate::quality::Quality;
use crate::service::Hosted;

/// To the node's thread.
pub(crate) enum Order {
    /// Join a node there.
    Join { node: NodeId, to: Address, deadline_ns: u64 },
    /// Leave a node, and give up joining it.
    Leave(NodeId),
    /// Leave a node by this link alone.
    LeaveLink(LinkId),
    /// Call a node.
    Call(Box<Outgoing>),
    /// Answer a node.
    Reply { ask: AskId, header: Vec<u8>, payload: Vec<u8> },
    /// Say to a node that nothing was done.
    Refuse(AskId),
    /// Serve nobody, and call nobody, unless a lease is held or a link is admitted.
    UseRegistry,
    /// Act until then.
    Hold { until_ns: u64 },
    /// Serve a node by this link.
    Admit(LinkId),
    /// Leave every link; another life of this node begins.
    BeginLife { incarnation: u64 },
    /// Measure how far a node is.
    Probe(NodeId),
    /// Serve the requests of a number from now on.
    Host(u16, Box<dyn Hosted>),
    /// Orders wait for the service of this number.
    Obey(u16),
    /// Do this for classes from now on.
    Quality(Box<Quality>),
}

/// The thread has ended; the order comes back.
pub(crate) struct Closed(pub(crate) Order);

/// The way. Handles that outlive its owner find it closed.
#[derive(Default)]
pub(crate) struct Gate(RwLock<Option<Remote<Order>>>);

impl Gate {
    /// Opens it.
    pub(crate) fn open(&self, remote: Remote<Order>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(remote);
    }

    /// Gives an order; never waits longer than others take to hand over theirs.
    pub(crate) fn send(&self, order: Order) -> Result<(), Closed> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Some(remote) => remote.send(order).map_err(|gone| Closed(gone.0)),
            None => Err(Closed(order)),
        }
    }

    /// Closes it: the thread leaves its peers and ends.
    pub(crate) fn close(&self) {
        drop(self.0.write().unwrap_or_else(PoisonError::into_inner).take());
    }
}
