//! The node's end: operations of other nodes on the shared store, and watches that wait for a change.

use std::sync::Arc;

use heliostat_backend_registry::{Key, LeaseId, SharedStore, Watched, WATCHES_MAX};
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{Asker, PeerNode, Peers, Replies, Served};

use crate::record::{Answer, Request};

/// The registry on its node's thread.
pub struct Host {
    store: SharedStore,
    replies: Replies,
    /// Tells the control plane that records changed.
    changed: Arc<dyn Fn() + Send + Sync>,
    watches: Vec<Waiting>,
}

/// What other threads order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostOrder {
    /// Records may have changed: whoever waits is told.
    Look,
}

/// A watch that waits.
struct Waiting {
    from: Asker,
    prefix: Key,
    after: u64,
}

impl Host {
    /// A registry of these records. `changed` is called on the node's thread, and must not wait.
    pub fn new(store: SharedStore, replies: Replies, changed: Arc<dyn Fn() + Send + Sync>) -> Host {
        Host { store, replies, changed, watches: Vec::new() }
    }

    /// Answers the watches for which there is something, and gives up those that nobody waits for.
    fn look(&mut self) {
        let now_ns = monotonic_ns();
        let store = self.store.lock();
        self.watches.retain(|it| {
            if it.from.deadline_ns <= now_ns {
                self.replies.refuse(it.from.ask);
                return false;
            }
            let watched = store.changes(&it.prefix, it.after);
            let is_nothing = is_nothing(&watched);
            if !is_nothing {
                self.replies.reply(it.from.ask, Vec::new(), Answer::Watched(watched).encode());
            }
            is_nothing
        });
    }

    fn watch(&mut self, from: Asker, prefix: Key, after: u64) -> Served {
        let watched = self.store.lock().changes(&prefix, after);
        if !is_nothing(&watched) {
            return replied(Answer::Watched(watched));
        }
        let of_peer = self.watches.iter().filter(|it| it.from.peer == from.peer).count();
        if of_peer >= WATCHES_MAX {
            return Served::Refuse;
        }
        self.watches.push(Waiting { from, prefix, after });
        Served::Later
    }
}

fn is_nothing(watched: &Watched) -> bool {
    matches!(watched, Watched::Changes { changes, .. } if changes.is_empty())
}

fn replied(answer: Answer) -> Served {
    Served::Reply { header: Vec::new(), payload: answer.encode() }
}

impl Peers for Host {
    type Order = HostOrder;

    fn request(&mut self, from: Asker, header: &[u8], payload: &[u8]) -> Served {
        self.look();
        let request = Request::decode(payload).filter(|_| header.is_empty());
        match request {
            None => Served::Refuse,
            Some(Request::Watch { prefix, after }) => self.watch(from, prefix, after),
            Some(Request::Do(operation)) => {
                // The lease is of this life of the node: a later one does not keep it.
                let lease = LeaseId { node: from.peer.node.0, life: from.peer.incarnation };
                let mut store = self.store.lock();
                let before = store.revision();
                let outcome = store.apply(lease, operation, monotonic_ns());
                let is_changed = store.revision() != before;
                drop(store);
                if is_changed {
                    self.look();
                }
                // Leases began or were kept: the control plane has another time to wake at.
                (self.changed)();
                replied(Answer::Ended(outcome))
            }
        }
    }

    fn order(&mut self, order: HostOrder) {
        match order {
            HostOrder::Look => self.look(),
        }
    }

    fn lost(&mut self, peer: PeerNode) {
        self.watches.retain(|it| it.from.peer != peer);
    }
}
