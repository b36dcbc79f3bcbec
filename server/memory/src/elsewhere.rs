//! A session's handles on regions of other nodes, and its operations that are on their way there.
//!
//! ```text
//! operation -> handle -> node's handle, parts -> node's thread ... answer -> order -> window, completion
//!                          ^                                                  |
//!                          '------------------- the next part ----------------'
//! ```
//!
//! What may be done is not looked at here: the node that holds the region does, in its own tables. An
//! operation that is cancelled, or whose session ends, is forgotten here; its answers come to nobody.

mod flight;
mod send;

use std::collections::HashMap;

use heliostat_abi::name::ObjectId;
use heliostat_server_node::PeerNode;

use super::there::There;
use flight::Flight;

pub use send::{answered, begin};

/// Handles on regions of other nodes, and what is on the way.
#[derive(Default)]
pub struct Elsewhere {
    held: HashMap<ObjectId, Held>,
    flights: HashMap<ObjectId, Flight>,
    /// Bytes that are on the way for the session.
    on_way_bytes: u64,
}

#[derive(Clone, Copy)]
struct Held {
    there: There,
    is_lost: bool,
}

impl Elsewhere {
    /// Takes a handle in.
    pub(crate) fn insert(&mut self, handle: ObjectId, there: There) {
        self.held.insert(handle, Held { there, is_lost: false });
    }

    /// Forgets a handle. What is on the way by it ends as the other node says.
    pub(crate) fn remove(&mut self, handle: ObjectId) {
        self.held.remove(&handle);
    }

    /// Whether a handle is known.
    pub(crate) fn has(&self, handle: ObjectId) -> bool {
        self.held.contains_key(&handle)
    }

    /// A node is lost: handles there lead nowhere. What is on the way ends by itself.
    pub(crate) fn lose(&mut self, peer: PeerNode) {
        let its = self.held.values_mut().filter(|held| held.there.peer == peer);
        its.for_each(|held| held.is_lost = true);
    }

    /// An operation has ended, for whatever reason.
    pub(crate) fn ended(&mut self, operation: ObjectId) {
        if !self.flights.is_empty() {
            self.flights.remove(&operation);
        }
    }
}
