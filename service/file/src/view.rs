//! What can be read of the file service without changing it.

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Quota;

use crate::file::File;
use crate::key::FileKey;

/// A lease, for status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseView {
    /// Its identity.
    pub id: ObjectId,
    /// Its file.
    pub key: FileKey,
    /// Sessions that hold it.
    pub holders: Vec<ObjectId>,
}

impl File {
    /// Every lease, in order of index.
    pub fn leases(&self) -> impl Iterator<Item = LeaseView> + '_ {
        self.leases.iter().map(|(id, lease)| LeaseView {
            id,
            key: lease.key,
            holders: self.leases.sessions(id).map(|(session, _)| session).collect(),
        })
    }

    /// The lease on a file, if there is one.
    pub fn lease_on(&self, key: FileKey) -> Option<ObjectId> {
        self.by_key.get(&key).copied()
    }

    /// Leases in force.
    pub fn lease_count(&self) -> usize {
        self.leases.len()
    }

    /// Who has how many.
    pub fn quota(&self) -> (Thing, &Quota) {
        self.leases.quota()
    }

    /// Those that a session holds.
    pub fn leases_of(&self, session: ObjectId) -> impl Iterator<Item = ObjectId> + '_ {
        self.leases.of(session)
    }

    /// How many these are.
    pub fn holding(&self, session: ObjectId) -> usize {
        self.leases.count_of(session)
    }

    /// Whether a session's grants were revoked, so that it gets nothing new.
    pub fn is_revoked(&self, session: ObjectId) -> bool {
        self.revoked.has(session)
    }
}
