//! Functions of other nodes that this node's sessions have found: their nodes decide, and here stands
//! what they have granted to whom, so that it is given back.
//!
//! ```text
//! granted by the node -> held --Leave, the session ends--> the node is told
//!                          '--the node is lost--> lost: it leads nowhere, and nobody is told
//! ```

use std::collections::HashMap;

use heliostat_abi::cluster::Class;
use heliostat_abi::code::{Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::peer::{elsewhere, place_elsewhere};
use heliostat_abi::rpc::FunctionInfo;
use heliostat_abi::table::Table;
use heliostat_service_grant::{Full, Holder, Quota};

use crate::rpc::Limits;

/// A function of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Which node.
    pub node: u64,
    /// By which link it was granted: with that it ends.
    pub link: u64,
    /// What the user is there.
    pub user_there: ObjectId,
    /// What it is, by its identity there.
    pub info: FunctionInfo,
    /// The user that it was granted to there.
    pub user: u32,
    /// How urgent are calls of it.
    pub class: Class,
    /// The node was lost.
    pub is_lost: bool,
}

/// All functions of other nodes that sessions of this node have.
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
    pub fn new(limits: Limits) -> Self {
        let quota = Quota::new(limits.functions);
        Self { sessions: HashMap::new(), quota, per_session: limits.functions_per_session }
    }

    /// New limits for what is asked from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.quota.set_shares(limits.functions);
        self.per_session = limits.functions_per_session;
    }

    /// Refuses one more where there are as many as may be.
    pub fn check(&self, session: ObjectId, holder: Holder) -> Result<(), Full> {
        if self.held(session) >= self.per_session {
            return Err(self.too_many());
        }
        self.quota.check(holder, 1).map_err(|it| Full::shared(Thing::Functions, it))
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

    /// Takes one out.
    pub fn remove(&mut self, session: ObjectId, function: ObjectId) -> Option<Remote> {
        let held = self.sessions.get_mut(&session)?;
        let removed = held.table.remove(place_elsewhere(function)?)?;
        self.quota.give_back(held.holder, 1);
        Some(removed)
    }

    /// Ends a session; returns what it had, of which the nodes are to be told.
    pub fn end(&mut self, session: ObjectId) -> Vec<Remote> {
        let Some(held) = self.sessions.remove(&session) else { return Vec::new() };
        self.quota.give_back(held.holder, held.table.len() as u64);
        held.table.iter().map(|(_, remote)| *remote).filter(|remote| !remote.is_lost).collect()
    }

    /// A node is lost: what was granted by that link leads nowhere.
    pub fn lose(&mut self, node: u64, link: u64) {
        let all = self.sessions.values_mut().flat_map(|held| held.table.iter_mut());
        let its = all.filter(|(_, it)| (it.node, it.link) == (node, link));
        its.for_each(|(_, remote)| remote.is_lost = true);
    }

    /// A session's functions on other nodes, by its names for them.
    pub fn of_session(&self, session: ObjectId) -> impl Iterator<Item = (ObjectId, &Remote)> {
        let held = self.sessions.get(&session).into_iter();
        held.flat_map(|held| held.table.iter().map(|(place, remote)| (elsewhere(place), remote)))
    }

    /// How many a session has.
    pub fn held(&self, session: ObjectId) -> usize {
        self.sessions.get(&session).map_or(0, |held| held.table.len())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sessions.values().map(|held| held.table.len()).sum()
    }

    fn too_many(&self) -> Full {
        Full::of(Thing::Functions, Side::Session, self.per_session as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_service_grant::Shares;

    fn remote(node: u64) -> Remote {
        let function = ObjectId { index: 1, generation: 1 };
        let info = FunctionInfo {
            function,
            user: 7,
            node: node as u32,
            request_bytes: 8,
            reply_bytes: 8,
            queue: 1,
            others: false,
        };
        let user_there = ObjectId { index: 2, generation: 1 };
        Remote { node, link: 5, user_there, info, user: 7, class: Class::Normal, is_lost: false }
    }

    #[test]
    fn what_a_session_has_elsewhere_is_given_back_once_and_not_to_a_lost_node() {
        let limits = Limits { functions_per_session: 3, functions: Shares::whole(8) };
        let (mut remotes, session) = (Remotes::new(limits), ObjectId { index: 9, generation: 1 });
        let mut add = |node| remotes.insert(session, Holder::user(7), remote(node));
        let (one, two, _) = (add(1).unwrap(), add(2).unwrap(), add(3).unwrap());
        assert_eq!(add(4), Err(Full::of(Thing::Functions, Side::Session, 3)));
        assert!(one != two && place_elsewhere(one).is_some());
        remotes.lose(1, 5);
        assert_eq!(remotes.remove(session, two).map(|it| it.node), Some(2));
        assert_eq!(remotes.remove(session, two), None);
        let left = remotes.end(session);
        assert_eq!(left.iter().map(|it| it.node).collect::<Vec<_>>(), [3]);
        assert_eq!(remotes.count(), 0);
    }
}
