//! Where a registry decides: nothing is asked or served without a lease that is held by this node's own
//! clock, and nothing of a node that is not admitted.
//!
//! The clock is read at each step anew: the thread may have been stopped between two of them. When the
//! lease may have run out every link ends at once, with what waits to be sent on it: the others may
//! have been told that this node is dead.

use heliostat_backend_transport::node::Node;
use heliostat_backend_transport::transport::{LinkId, Transport};
use heliostat_base::clock::monotonic_ns;

use super::Work;
use crate::header;

/// Until when this node may act.
#[derive(Default)]
pub(super) struct Fence {
    /// Whether a registry decides.
    pub(super) is_used: bool,
    /// Where it does: until then. Before and after, not.
    pub(super) until_ns: Option<u64>,
}

impl Fence {
    fn is_held(&self) -> bool {
        !self.is_used || self.until_ns.is_some_and(|until| monotonic_ns() < until)
    }
}

/// Whether a message is one that nodes exchange before they are members.
pub(super) fn is_free(header: &[u8]) -> bool {
    matches!(header::decode(header), Some((header::ECHO | header::REGISTRY, _)))
}

impl Work {
    /// Whether this node may act, and the other one is a member, as far as a registry decides.
    pub(super) fn is_open(&self, link: LinkId) -> bool {
        let is_admitted = || self.peers.get(&link).is_some_and(|peer| peer.is_admitted);
        self.fence.is_held() && (!self.fence.is_used || is_admitted())
    }

    /// Ends every link where the lease may have run out.
    pub(super) fn stop_in_time<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64) {
        if self.fence.until_ns.is_some() && !self.fence.is_held() {
            self.fence.until_ns = None;
            node.drop_links(now_ns);
        }
    }

    /// The lease is held until then.
    pub(super) fn hold<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, until_ns: u64) {
        self.fence.until_ns = Some(self.fence.until_ns.map_or(until_ns, |it| it.max(until_ns)));
        let links: Vec<_> = self.peers.keys().copied().collect();
        links.into_iter().for_each(|link| self.resume(node, now_ns, link));
    }

    /// A node is a member by this link.
    pub(super) fn admit<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, link: LinkId) {
        if let Some(peer) = self.peers.get_mut(&link) {
            peer.is_admitted = true;
            self.resume(node, now_ns, link);
        }
    }
}
