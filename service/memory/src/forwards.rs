//! Where regions are that have left for other nodes: for who has handles here, or knows their names.
//!
//! ```text
//! the region leaves -> record --10 minutes, and nobody has a handle that managed it--> forgotten
//! ```
//! There are so many at most (`FORWARDS_MAX`), and no region leaves while there are: none is forgotten
//! before its time.

use std::collections::{BTreeMap, HashMap};

use heliostat_abi::name::ObjectId;

use crate::key::Key;

/// Where a region is that has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forward {
    /// On which node.
    pub node: u64,
    /// What it is called there.
    pub region: ObjectId,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forwards {
    records: BTreeMap<ObjectId, Record>,
    names: HashMap<Key, ObjectId>,
}

#[derive(Clone, Debug)]
struct Record {
    forward: Forward,
    name: Option<Key>,
    /// Handles here with which it was managed.
    managers: usize,
    until_ns: u64,
}

impl Forwards {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// A region has left. A name leads to the last one that had it.
    pub(crate) fn insert(
        &mut self,
        region: ObjectId,
        forward: Forward,
        (name, managers): (Option<Key>, usize),
        until_ns: u64,
    ) {
        if let Some(name) = &name {
            self.names.insert(name.clone(), region);
        }
        self.records.insert(region, Record { forward, name, managers, until_ns });
    }

    pub(crate) fn get(&self, region: ObjectId) -> Option<Forward> {
        self.records.get(&region).map(|record| record.forward)
    }

    pub(crate) fn named(&self, name: &Key) -> Option<Forward> {
        self.get(*self.names.get(name)?)
    }

    /// A handle that managed a region has ended; whether it was the last of them.
    pub(crate) fn resign(&mut self, region: ObjectId) -> bool {
        let Some(record) = self.records.get_mut(&region) else { return false };
        record.managers = record.managers.saturating_sub(1);
        record.managers == 0
    }

    /// Forgets those whose time is over.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        self.records.retain(|_, record| record.managers > 0 || record.until_ns > now_ns);
        let records = &self.records;
        self.names.retain(|name, region| {
            let record = records.get(region);
            record.is_some_and(|record| record.name.as_ref() == Some(name))
        });
    }
}

#[cfg(test)]
mod tests {
    use heliostat_abi::memory::MemoryName;

    use super::*;

    #[test]
    fn a_record_lasts_for_its_time_and_for_its_managers() {
        let id = |index| ObjectId { index, generation: 1 };
        let key = Key { uid: 7, name: MemoryName::parse("kv").unwrap() };
        let to = |region| Forward { node: 2, region: id(region) };
        let mut forwards = Forwards::default();
        forwards.insert(id(1), to(11), (Some(key.clone()), 2), 100);
        forwards.insert(id(2), to(12), (None, 0), 100);
        assert_eq!((forwards.get(id(1)), forwards.named(&key)), (Some(to(11)), Some(to(11))));
        forwards.expire(99);
        assert_eq!(forwards.len(), 2);
        assert!(!forwards.resign(id(1)));
        forwards.expire(100);
        assert_eq!((forwards.len(), forwards.get(id(2))), (1, None));
        forwards.insert(id(3), to(13), (Some(key.clone()), 0), 200);
        assert_eq!(forwards.named(&key), Some(to(13)), "the last that had it");
        assert!(forwards.resign(id(1)));
        forwards.expire(150);
        assert_eq!((forwards.len(), forwards.named(&key)), (1, Some(to(13))));
        forwards.expire(200);
        assert_eq!((forwards.len(), forwards.named(&key)), (0, None));
    }
}
