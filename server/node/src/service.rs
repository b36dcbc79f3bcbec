//! What a service on the node's thread is: it answers peers at once, and obeys other threads.

use heliostat_abi::cluster::Class;
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::transport::LinkId;
use heliostat_backend_transport::AskId;

/// A node, which life of it, and by which link. What was granted on an earlier link is void: calls on
/// it have ended, and the node may have lost what it kept of this one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerNode {
    /// Its number.
    pub node: NodeId,
    /// Larger after each start.
    pub incarnation: u64,
    /// Never used again in the life of this node.
    pub link: LinkId,
}

/// Who asks, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// Which node: it has proven that it belongs to the cluster, and nothing more.
    pub peer: PeerNode,
    /// The number to answer it by, where the answer comes later.
    pub ask: AskId,
    /// When nobody waits for the answer any more.
    pub deadline_ns: u64,
    /// In which class it is served here.
    pub class: Class,
}

/// What becomes of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Served {
    /// It is answered.
    Reply {
        /// The service's own header, at most
        /// [`REPLY_HEADER_BYTES_MAX`](crate::limits::REPLY_HEADER_BYTES_MAX).
        header: Vec<u8>,
        /// At most [`PAYLOAD_BYTES_MAX`](crate::PAYLOAD_BYTES_MAX).
        payload: Vec<u8>,
    },
    /// Nothing was done, and will not be.
    Refuse,
    /// The daemon answers it.
    Forward,
    /// Somebody answers it by [`Replies`](crate::Replies) and [`Asker::ask`], before its deadline.
    Later,
}

/// A service on the node's thread. Nothing here may wait: every peer's messages pass through it.
pub trait Peers {
    /// What other threads may order it.
    type Order: Send + 'static;

    /// Serves a request of a peer. Header and payload are foreign bytes; they lie in this process's own
    /// memory and do not change.
    fn request(&mut self, from: Asker, header: &[u8], payload: &[u8]) -> Served;

    /// Obeys an order.
    fn order(&mut self, order: Self::Order);

    /// A peer is lost: what it asked is void. Another link to it may follow at once.
    fn lost(&mut self, peer: PeerNode);
}

/// A service and its orders, whichever service it is.
pub(crate) trait Hosted: Send {
    fn request(&mut self, from: Asker, header: &[u8], payload: &[u8]) -> Served;
    /// Obeys the orders that wait.
    fn obey(&mut self);
    fn lost(&mut self, peer: PeerNode);
}
