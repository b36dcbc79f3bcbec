//! What there is, for people.

use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;

use crate::listeners::{Endpoint, Listeners};

/// One listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenerView {
    /// Which.
    pub id: ObjectId,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Whose it is.
    pub owner_uid: u32,
    /// By which rule.
    pub rule: Rule,
    /// Whether it stays without workers.
    pub is_lasting: bool,
    /// Its workers, in order of place.
    pub workers: Vec<WorkerView>,
}

/// One worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerView {
    /// Which.
    pub id: ObjectId,
    /// Its place.
    pub place: u32,
    /// Who takes from its queue.
    pub sessions: Vec<ObjectId>,
}

impl Listeners {
    /// Every listener.
    pub fn views(&self) -> impl Iterator<Item = ListenerView> + '_ {
        self.listeners.iter().map(|(id, listener)| ListenerView {
            id,
            endpoint: listener.endpoint,
            owner_uid: listener.owner_uid,
            rule: listener.rule,
            is_lasting: listener.is_lasting,
            workers: listener
                .places
                .iter()
                .map(|(place, worker)| WorkerView {
                    id: *worker,
                    place: *place,
                    sessions: self.workers.sessions(*worker).map(|(session, _)| session).collect(),
                })
                .collect(),
        })
    }
}
