//! Locks as people see them.

use heliostat_abi::lock::reply::NO_MORE;
use heliostat_abi::lock::ListedLock;
use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::{json, Value};

use crate::daemon::{Daemon, Viewer};

/// Locks named in a status: it costs everybody the time that it takes. `heliostat lock list` names all.
const LISTED_MAX: usize = 128;

impl Daemon {
    /// The whole of it, for status.
    pub(super) fn locks_json(&self, viewer: Viewer) -> Value {
        let grants = &self.services.lock.grants;
        let (held, waiting) = grants.ticket_counts();
        let (mut listed, mut from) = (Vec::new(), 0);
        let now = monotonic_ns();
        while from != NO_MORE && listed.len() < LISTED_MAX {
            let (some, next) = grants.list(from, "", now, |uid| viewer.sees(uid));
            listed.extend(some);
            from = next;
        }
        let each: Vec<_> = listed.iter().take(LISTED_MAX).map(listed_json).collect();
        let elsewhere = self.services.lock.across.remotes.counts();
        json!({
            "locks": grants.lock_count(),
            "held": held,
            "waiting": waiting,
            "listed": each,
            "sessions_of_other_nodes": self.services.lock.across.foreign.count(),
            "elsewhere": {
                "handles": elsewhere.handles,
                "held": elsewhere.held,
                "waiting": elsewhere.waiting,
            },
        })
    }

    /// What a session has.
    pub(super) fn locks_held_json(&self, session: ObjectId) -> Value {
        let has = self.services.lock.grants.holding(session);
        let there = self.services.lock.across.remotes.holding(session);
        json!({
            "handles": has.handles + there.handles,
            "held": has.held + there.held,
            "waiting": has.waiting + there.waiting,
        })
    }

    /// What a session waits for, and how many are before it; nothing where it waits for nothing.
    pub(super) fn lock_waits_json(&self, session: ObjectId) -> Option<Value> {
        let waits = self.services.lock.grants.waits(session);
        if waits.is_empty() {
            return None;
        }
        let each =
            waits.into_iter().map(|(name, before)| json!({ "name": name, "before": before }));
        Some(json!({
            "session": session.to_string(),
            "waits_for": each.collect::<Vec<_>>(),
            "why": "each line is served first come, first served",
        }))
    }

    /// What is there now.
    pub(super) fn lock_gauges(&self) -> Vec<(&'static str, &'static str, u64)> {
        let grants = &self.services.lock.grants;
        let (held, waiting) = grants.ticket_counts();
        let there = self.services.lock.across.remotes.counts();
        vec![
            ("locks", "Locks, semaphores and barriers", grants.lock_count() as u64),
            ("locks_held", "Acquisitions of them that are held", held as u64),
            ("locks_waiting", "Acquisitions and arrivals that wait", waiting as u64),
            (
                "locks_elsewhere_held",
                "Acquisitions that are held on other nodes",
                there.held as u64,
            ),
            (
                "locks_elsewhere_waiting",
                "Acquisitions and arrivals that wait there",
                there.waiting as u64,
            ),
        ]
    }

    /// What was done.
    pub(super) fn add_locks(&self, registry: &mut Registry) {
        let lock = &self.services.lock;
        let counters = [
            ("lock_acquisitions", "Acquisitions of locks and semaphores", lock.acquired),
            ("lock_waits", "Acquisitions that had to wait", lock.waited),
        ];
        for (name, help, count) in counters {
            let counter: Counter = Counter::default();
            counter.inc_by(count);
            registry.register(name, help, counter);
        }
    }
}

fn listed_json(lock: &ListedLock) -> Value {
    json!({
        "id": lock.lock.to_string(),
        "name": lock.name.to_string(),
        "uid": lock.user,
        "kind": lock.shape.kind.word(),
        "count": lock.shape.count,
        "opened": lock.opened,
        "held": lock.held,
        "waiting": lock.waiting,
        "owner_died": lock.has_owner_died,
        "broken": lock.is_broken,
        "age_s": lock.age_s,
    })
}
