//! The records themselves: revisions, leases, and the last changes for those who watch.
//!
//! A pure state machine: (records, time, operation) -> outcome. It has no clock; whoever owns it says
//! what time it is, and asks when the next lease ends. It leaves to others how operations come and go.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::key::{Key, Value};
use crate::registry::{Change, Guard, Operation, Outcome, Record, Why, Write, LISTED_MAX};

/// Whose lease: a node's number and which life of it, so that no later life keeps an earlier one's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseId {
    /// The node.
    pub node: u64,
    /// Which of its leases.
    pub life: u64,
}

/// How much of everything there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Records.
    pub records: usize,
    /// Leases.
    pub leases: usize,
    /// Changes that are kept for those who watch.
    pub changes: usize,
    /// The longest lease.
    pub ttl_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { records: 16_384, leases: 1_024, changes: 4_096, ttl_ms: 3_600_000 }
    }
}

/// What somebody who watches gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Watched {
    /// Changes in order, [`LISTED_MAX`] at most; everything up to `upto` is told with them.
    Changes {
        /// They.
        changes: Vec<Change>,
        /// The revision to watch on from.
        upto: u64,
    },
    /// Changes after that revision are not kept any more, or it is none of this registry's.
    Broken,
}

#[derive(Clone, Debug)]
struct Kept {
    revision: u64,
    value: Value,
    lease: Option<LeaseId>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    ttl_ns: u64,
    end_ns: u64,
}

/// All records.
#[derive(Clone, Debug)]
pub struct Store {
    limits: Limits,
    revision: u64,
    records: BTreeMap<Key, Kept>,
    leases: BTreeMap<LeaseId, Lease>,
    changes: VecDeque<Change>,
    /// Changes after this revision are kept.
    kept_after: u64,
}

impl Store {
    /// No records yet. Revisions are larger than `first`: for a store that is lost with its process,
    /// a number that an earlier one has not reached.
    pub fn new(first: u64, limits: Limits) -> Store {
        Store {
            limits,
            revision: first,
            records: BTreeMap::new(),
            leases: BTreeMap::new(),
            changes: VecDeque::new(),
            kept_after: first,
        }
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// When the next lease ends, if it is not kept alive.
    pub fn next_ns(&self) -> Option<u64> {
        self.leases.values().map(|lease| lease.end_ns).min()
    }

    /// Ends the leases whose time has come, with what was written under them.
    pub fn pass_time(&mut self, now_ns: u64) {
        let ended = self.leases.iter().filter(|(_, lease)| lease.end_ns <= now_ns);
        let ended: Vec<_> = ended.map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|id| self.end(id));
    }

    /// Does an operation for the owner of a lease, or says why not.
    pub fn apply(&mut self, lease: LeaseId, operation: Operation, now_ns: u64) -> Outcome {
        self.pass_time(now_ns);
        match operation {
            Operation::Get { key } => match self.record(&key) {
                Some(record) => Outcome::Found(record),
                None => Outcome::Absent { revision: self.revision },
            },
            Operation::List { prefix, after } => self.list(&prefix, after.as_ref()),
            Operation::Write(write) => self.write(lease, write),
            Operation::Lease { ttl_ms } => self.begin(lease, ttl_ms, now_ns),
            Operation::KeepAlive => match self.leases.get_mut(&lease) {
                Some(lease) => {
                    lease.end_ns = now_ns.saturating_add(lease.ttl_ns);
                    self.done()
                }
                None => Outcome::NotDone(Why::NoLease),
            },
            Operation::EndLease => {
                self.end(lease);
                self.done()
            }
        }
    }

    /// The changes under a prefix after a revision.
    pub fn changes(&self, prefix: &Key, after: u64) -> Watched {
        if after < self.kept_after || after > self.revision {
            return Watched::Broken;
        }
        let from = self.changes.partition_point(|change| change.revision <= after);
        let later = self.changes.range(from..).filter(|change| change.key.is_under(prefix));
        let changes: Vec<_> = later.take(LISTED_MAX).cloned().collect();
        let is_all = changes.len() < LISTED_MAX;
        let last = changes.last().map_or(self.revision, |change| change.revision);
        Watched::Changes { changes, upto: if is_all { self.revision } else { last } }
    }

    fn done(&self) -> Outcome {
        Outcome::Done { revision: self.revision }
    }

    fn record(&self, key: &Key) -> Option<Record> {
        let Kept { revision, value, .. } = self.records.get(key)?;
        Some(Record { key: key.clone(), revision: *revision, value: value.clone() })
    }

    fn list(&self, prefix: &Key, after: Option<&Key>) -> Outcome {
        let from = match after {
            Some(key) if key >= prefix => Bound::Excluded(key),
            _ => Bound::Included(prefix),
        };
        let all = self.records.range((from, Bound::Unbounded));
        let mut under = all.map(|(key, _)| key).take_while(|key| key.is_under(prefix));
        let keys: Vec<_> = under.by_ref().take(LISTED_MAX).collect();
        let has_more = under.next().is_some();
        let records = keys.into_iter().filter_map(|key| self.record(key)).collect();
        Outcome::Listed { records, revision: self.revision, has_more }
    }

    fn begin(&mut self, id: LeaseId, ttl_ms: u64, now_ns: u64) -> Outcome {
        self.end(id);
        if self.leases.len() >= self.limits.leases {
            return Outcome::NotDone(Why::Full { what: "leases", limit: self.limits.leases });
        }
        let ttl_ns = ttl_ms.clamp(1, self.limits.ttl_ms) * 1_000_000;
        self.leases.insert(id, Lease { ttl_ns, end_ns: now_ns.saturating_add(ttl_ns) });
        self.done()
    }

    fn end(&mut self, id: LeaseId) {
        if self.leases.remove(&id).is_none() {
            return;
        }
        let its = self.records.iter().filter(|(_, kept)| kept.lease == Some(id));
        let keys: Vec<_> = its.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.records.remove(&key);
            self.tell(key, None);
        }
    }

    fn write(&mut self, lease: LeaseId, write: Write) -> Outcome {
        let Write { key, expected, value, is_leased, guard } = write;
        let revision_of = |key: &Key| self.records.get(key).map_or(0, |kept| kept.revision);
        if guard.is_some_and(|Guard { key, revision }| revision_of(&key) != revision) {
            return Outcome::Unguarded;
        }
        if revision_of(&key) != expected {
            return Outcome::Conflict { found: self.record(&key) };
        }
        if is_leased && value.is_some() && !self.leases.contains_key(&lease) {
            return Outcome::NotDone(Why::NoLease);
        }
        if key.as_str().is_empty() {
            return Outcome::NotDone(Why::Refused("a record's key is not empty".to_owned()));
        }
        match value {
            Some(value) => {
                let limit = self.limits.records;
                if expected == 0 && self.records.len() >= limit {
                    return Outcome::NotDone(Why::Full { what: "records", limit });
                }
                let revision = self.tell(key.clone(), Some(value.clone()));
                let lease = is_leased.then_some(lease);
                self.records.insert(key, Kept { revision, value, lease });
            }
            None if expected == 0 => {}
            None => {
                self.records.remove(&key);
                self.tell(key, None);
            }
        }
        self.done()
    }

    fn tell(&mut self, key: Key, value: Option<Value>) -> u64 {
        self.revision += 1;
        self.changes.push_back(Change { key, revision: self.revision, value });
        while self.changes.len() > self.limits.changes {
            self.kept_after = self.changes.pop_front().map_or(0, |change| change.revision);
        }
        self.revision
    }
}
