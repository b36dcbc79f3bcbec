//! Handles of this node's sessions on regions of other nodes: the node that holds a region decides, and
//! here stands what it has granted to whom, so that it is given back.
//!
//! ```text
//! granted by the node -> held --unmap, the session ends--> the node is told
//!                          '--the node is lost--> lost: it leads nowhere, and nobody is told
//! ```

use std::collections::HashMap;

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::memory::peer::{elsewhere, place_elsewhere, PeerHandle};
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use heliostat_service_grant::{Full, Holder, Quota, Shares};

/// A handle on a region of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Which node.
    pub node: u64,
    /// By which link it was granted: with that it ends.
    pub link: u64,
    /// The handle there.
    pub there: PeerHandle,
    /// The region, by its identity there.
    pub region: ObjectId,
    /// What it allows.
    pub rights: Rights,
    /// The user that it was granted to there.
    pub user: u32,
    /// Whether as to a restricted program.
    pub is_restricted: bool,
    /// The node was lost.
    pub is_lost: bool,
}

/// All handles on regions of other nodes.
#[derive(Clone, Debug)]
pub struct Remotes {
    sessions: HashMap<ObjectId, Held>,
    quota: Quota,
    per_session: usize,
}

#[derive(Clone, Debug)]
struct Held {
    holder: Holder,
    table: Table<Remote>,
}

impl Remotes {
    /// Nobody has any; so many may be of a session, and of a user.
    pub fn new(per_session: usize, shares: Shares) -> Self {
        Self { sessions: HashMap::new(), quota: Quota::new(shares), per_session }
    }

    /// New limits for what is asked from now on.
    pub fn set_shares(&mut self, shares: Shares) {
        self.quota.set_shares(shares);
    }

    /// Refuses one more handle where there are as many as may be.
    pub fn check(&self, session: ObjectId, holder: Holder) -> Result<(), Full> {
        if self.held(session) >= self.per_session {
            return Err(self.too_many());
        }
        self.quota.check(holder, 1).map_err(|it| Full::shared(Thing::MemoryHandles, it))
    }

    /// Takes in what a node has granted; the session's name for it.
    ///
    /// # Errors
    /// As `check`; then the node is to be told that it is given back.
    pub fn insert(
        &mut self,
        session: ObjectId,
        holder: Holder,
        remote: Remote,
    ) -> Result<ObjectId, Full> {
        self.check(session, holder)?;
        let (limit, too_many) = (self.per_session, self.too_many());
        let held = self.sessions.entry(session);
        let held = held.or_insert_with(|| Held { holder, table: Table::lean(limit) });
        let place = held.table.insert(remote).map_err(|_| too_many)?;
        self.quota.take_anyway(held.holder, 1);
        Ok(elsewhere(place))
    }

    /// A handle of a session, by the session's name for it.
    pub fn get(&self, session: ObjectId, handle: ObjectId) -> Option<&Remote> {
        self.sessions.get(&session)?.table.get(place_elsewhere(handle)?)
    }

    /// Takes a handle out.
    pub fn remove(&mut self, session: ObjectId, handle: ObjectId) -> Option<Remote> {
        let held = self.sessions.get_mut(&session)?;
        let removed = held.table.remove(place_elsewhere(handle)?)?;
        self.quota.give_back(held.holder, 1);
        Some(removed)
    }

    /// Ends a session; returns what it had, of which the nodes are to be told.
    pub fn end(&mut self, session: ObjectId) -> Vec<Remote> {
        let Some(held) = self.sessions.remove(&session) else { return Vec::new() };
        self.quota.give_back(held.holder, held.table.len() as u64);
        held.table.iter().map(|(_, remote)| *remote).filter(|remote| !remote.is_lost).collect()
    }

    /// A node is lost: what was granted by that link leads nowhere. Returns how many there were.
    pub fn lose(&mut self, node: u64, link: u64) -> usize {
        let all = self.sessions.values_mut().flat_map(|held| held.table.iter_mut());
        let is_its = |it: &Remote| (it.node, it.link) == (node, link) && !it.is_lost;
        let its = all.filter(|(_, remote)| is_its(remote));
        its.map(|(_, remote)| remote.is_lost = true).count()
    }

    /// A session's handles, by its names for them.
    pub fn of_session(&self, session: ObjectId) -> impl Iterator<Item = (ObjectId, &Remote)> {
        let held = self.sessions.get(&session).into_iter();
        held.flat_map(|held| held.table.iter().map(|(place, remote)| (elsewhere(place), remote)))
    }

    /// How many a session has.
    pub fn held(&self, session: ObjectId) -> usize {
        self.sessions.get(&session).map_or(0, |held| held.table.len())
    }

    /// How many there are by node.
    pub fn by_node(&self) -> HashMap<u64, usize> {
        let mut count = HashMap::new();
        for (_, remote) in self.sessions.values().flat_map(|held| held.table.iter()) {
            *count.entry(remote.node).or_default() += 1;
        }
        count
    }

    fn too_many(&self) -> Full {
        Full::of(Thing::MemoryHandles, Side::Session, self.per_session as u64)
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
