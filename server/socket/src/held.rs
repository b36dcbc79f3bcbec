//! Connections that are nobody's yet, in order of the time for which they may be held.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use heliostat_abi::name::ObjectId;

use super::arrival::Arrival;
use super::listener::Listener;

/// A connection among those that are held: they are in order of their deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct HeldId {
    pub until_ns: u64,
    serial: u64,
}

/// One of them.
pub(crate) struct Held {
    /// One that has ended meanwhile ends its connections, as the kernel does those of its queue.
    pub listener: Weak<Listener>,
    pub arrival: Arrival,
    /// So many first bytes are looked at.
    pub bytes_max: usize,
    /// Its place among those that the loop watches.
    pub watched: ObjectId,
}

/// Those of one loop.
#[derive(Default)]
pub(crate) struct PeekedConnections {
    all: BTreeMap<HeldId, Held>,
    serial: u64,
}

impl PeekedConnections {
    /// A name for one more, until this time.
    pub fn next_id(&mut self, until_ns: u64) -> HeldId {
        self.serial += 1;
        HeldId { until_ns, serial: self.serial }
    }

    /// Holds one more.
    pub fn insert(&mut self, id: HeldId, of: &Arc<Listener>, held: (Arrival, usize, ObjectId)) {
        let (arrival, bytes_max, watched) = held;
        let listener = Arc::downgrade(of);
        self.all.insert(id, Held { listener, arrival, bytes_max, watched });
    }

    /// One of them.
    pub fn get(&self, id: HeldId) -> Option<&Held> {
        self.all.get(&id)
    }

    /// Takes one out.
    pub fn remove(&mut self, id: HeldId) -> Option<Held> {
        self.all.remove(&id)
    }

    /// The one whose time comes first.
    pub fn first(&self) -> Option<HeldId> {
        self.all.keys().next().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }
}
