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
//!
//! Operations that wait for room wait here, and their sessions have turns on their loop ([`Ways`]):
//! what waits there is as much as there are sessions, whatever becomes of operations.
//!
//! [`Ways`]: super::ways::Ways

mod flight;
mod send;

use std::collections::{BTreeMap, HashMap, VecDeque};

use heliostat_abi::memory::peer::CHUNK_BYTES_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_server_node::PeerNode;

use super::there::There;
use super::traffic::{Waiting, MESSAGE_COST, SESSION_BYTES_MAX};
use super::ways::{Way, Ways};
use flight::Flight;

pub use send::{answered, begin, pass_time};

/// Handles on regions of other nodes, and what is on the way.
#[derive(Default)]
pub struct Elsewhere {
    held: HashMap<ObjectId, Held>,
    flights: HashMap<ObjectId, Flight>,
    /// Bytes that are on the way for the session.
    on_way_bytes: u64,
    /// Bytes that it may have on the way and does not use: nodes have told it to wait.
    spared_bytes: u64,
    /// Operations that wait for room, by where they go.
    waiting: BTreeMap<Way, Queue>,
    /// When the loop may send again what it could not.
    wake_ns: Option<u64>,
}

/// Operations that wait for room on the way to one node.
#[derive(Default)]
struct Queue {
    operations: VecDeque<ObjectId>,
    /// The session waits for its turn there.
    is_in_lane: bool,
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
        if self.flights.is_empty() {
            return;
        }
        let Some(flight) = self.flights.remove(&operation).filter(|flight| flight.is_waiting)
        else {
            return;
        };
        if let Some(queue) = self.waiting.get_mut(&flight.way()) {
            queue.operations.retain(|waiting| *waiting != operation);
        }
    }

    /// What counts as on the way: also what is spared.
    fn taken_bytes(&self) -> u64 {
        self.on_way_bytes + self.spared_bytes
    }

    /// A node has told the session to wait: half as much is on the way from now on, one part at least.
    fn spare(&mut self) {
        let used = (SESSION_BYTES_MAX - self.spared_bytes) / 2;
        let least = CHUNK_BYTES_MAX + MESSAGE_COST;
        self.spared_bytes = SESSION_BYTES_MAX - used.max(least);
    }

    /// A node has done so many bytes: a part of that more may be on the way.
    fn unspare(&mut self, bytes: u64) {
        self.spared_bytes = self.spared_bytes.saturating_sub(bytes / 4 + MESSAGE_COST);
    }

    /// When the session's loop next has something to do here because time went by.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.wake_ns
    }

    /// An operation waits, in front of the others there or behind them.
    fn wait(&mut self, operation: ObjectId, is_first: bool) {
        let Some(flight) = self.flights.get_mut(&operation) else { return };
        flight.is_waiting = true;
        let queue = self.waiting.entry(flight.way()).or_default();
        match is_first {
            true => queue.operations.push_front(operation),
            false => queue.operations.push_back(operation),
        }
    }

    /// The session waits for its turn on the way to a node, if it has something to send there.
    fn join(&mut self, ways: &mut Ways, session: Waiting, to: Way) {
        let Some(queue) = self.waiting.get_mut(&to) else { return };
        if queue.operations.is_empty() {
            if !queue.is_in_lane {
                self.waiting.remove(&to);
            }
        } else if !std::mem::replace(&mut queue.is_in_lane, true) {
            ways.wait(to, session);
        }
        self.wake_ns = ways.next_ns();
    }

    /// The same on all ways: the session has room of its own again.
    fn join_all(&mut self, ways: &mut Ways, session: Waiting) {
        let its: Vec<Way> = self.waiting.keys().copied().collect();
        its.into_iter().for_each(|to| self.join(ways, session, to));
    }

    /// The session has its turn on the way to a node: the operation that waited longest.
    fn next(&mut self, to: Way) -> Option<ObjectId> {
        let queue = self.waiting.get_mut(&to)?;
        queue.is_in_lane = false;
        let operation = queue.operations.pop_front();
        if let Some(flight) = operation.and_then(|operation| self.flights.get_mut(&operation)) {
            flight.is_waiting = false;
        }
        operation
    }

    /// It was not its turn after all: what stands first there waits before everybody else.
    fn put_back(&mut self, ways: &mut Ways, session: Waiting, to: Way) {
        if let Some(queue) = self.waiting.get_mut(&to) {
            queue.is_in_lane = true;
            ways.wait_first(to, session);
        }
    }
}
