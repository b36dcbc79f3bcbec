//! Sessions whose grants were revoked: they get nothing new until they end.

use std::collections::HashSet;

use heliostat_abi::name::ObjectId;

use crate::refusal::Refusal;

/// The sessions. There are no more of them than sessions, and each leaves with its end.
#[derive(Clone, Debug, Default)]
pub struct Revoked(HashSet<ObjectId>);

impl Revoked {
    /// Refuses a session whose grants were revoked.
    pub fn check<R>(&self, session: ObjectId) -> Result<(), Refusal<R>> {
        if self.has(session) {
            return Err(Refusal::Revoked);
        }
        Ok(())
    }

    /// Whether a session's grants were revoked.
    pub fn has(&self, session: ObjectId) -> bool {
        self.0.contains(&session)
    }

    /// Lets a session have nothing new.
    pub fn insert(&mut self, session: ObjectId) {
        self.0.insert(session);
    }

    /// Forgets a session that has ended.
    pub fn forget(&mut self, session: ObjectId) {
        self.0.remove(&session);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
