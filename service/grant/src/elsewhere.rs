//! What sessions of this node have on other nodes: those nodes decide, and here stands what each has
//! granted to whom, so that it is given back.
//!
//! ```text
//! granted by the node -> held --given up, the session ends--> the node is told
//!                          '--the node is lost--> lost: it leads nowhere, and nobody is told
//! ```

use std::collections::HashMap;

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::peer::{elsewhere, place_elsewhere};
use heliostat_abi::table::Table;

use crate::quota::{Holder, Quota, Shares};
use crate::refusal::Full;

/// A node, and the link to it by which something was granted: with the link it ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Via {
    /// Which node.
    pub node: u64,
    /// By which link.
    pub link: u64,
}

/// An object that another node has granted, as its service keeps it.
pub trait Granted: Copy {
    /// By whom it was granted.
    fn via(&self) -> Via;
    /// Whether its node was lost.
    fn is_lost(&self) -> bool;
    /// Its node is lost.
    fn lose(&mut self);
}

/// All objects of one kind that sessions of this node have on other nodes.
#[derive(Clone, Debug)]
pub struct Elsewhere<T> {
    thing: Thing,
    sessions: HashMap<ObjectId, Held<T>>,
    quota: Quota,
    per_session: usize,
}

#[derive(Clone, Debug)]
struct Held<T> {
    holder: Holder,
    table: Table<T>,
}

impl<T: Granted> Elsewhere<T> {
    /// Nobody has any; so many of this kind may be of a session, and of a user.
    pub fn new(thing: Thing, per_session: usize, shares: Shares) -> Self {
        Self { thing, sessions: HashMap::new(), quota: Quota::new(shares), per_session }
    }

    /// New limits for what is asked from now on.
    pub fn set_limits(&mut self, per_session: usize, shares: Shares) {
        self.per_session = per_session;
        self.quota.set_shares(shares);
    }

    /// Refuses one more where there are as many as may be.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn check(&self, session: ObjectId, holder: Holder) -> Result<(), Full> {
        if self.held(session) >= self.per_session {
            return Err(self.too_many());
        }
        self.quota.check(holder, 1).map_err(|it| Full::shared(self.thing, it))
    }

    /// Takes in what a node has granted; the session's name for it.
    ///
    /// # Errors
    /// As `check`; then the node is to be told that it is given back.
    pub fn insert(
        &mut self,
        session: ObjectId,
        holder: Holder,
        granted: T,
    ) -> Result<ObjectId, Full> {
        self.check(session, holder)?;
        let (limit, too_many) = (self.per_session, self.too_many());
        let held = self.sessions.entry(session);
        let held = held.or_insert_with(|| Held { holder, table: Table::lean(limit) });
        let place = held.table.insert(granted).map_err(|_| too_many)?;
        self.quota.take_anyway(held.holder, 1);
        Ok(elsewhere(place))
    }

    /// An object of a session, by the session's name for it.
    pub fn get(&self, session: ObjectId, object: ObjectId) -> Option<&T> {
        self.sessions.get(&session)?.table.get(place_elsewhere(object)?)
    }

    /// Takes one out.
    pub fn remove(&mut self, session: ObjectId, object: ObjectId) -> Option<T> {
        let held = self.sessions.get_mut(&session)?;
        let removed = held.table.remove(place_elsewhere(object)?)?;
        self.quota.give_back(held.holder, 1);
        Some(removed)
    }

    /// Ends a session; returns what it had, of which the nodes are to be told.
    pub fn end(&mut self, session: ObjectId) -> Vec<T> {
        let Some(held) = self.sessions.remove(&session) else { return Vec::new() };
        self.quota.give_back(held.holder, held.table.len() as u64);
        held.table.iter().map(|(_, granted)| *granted).filter(|it| !it.is_lost()).collect()
    }

    /// A node is lost: what was granted by that link leads nowhere. Returns how many there were.
    pub fn lose(&mut self, via: Via) -> usize {
        let all = self.sessions.values_mut().flat_map(|held| held.table.iter_mut());
        let its = all.filter(|(_, it)| it.via() == via && !it.is_lost());
        its.map(|(_, granted)| granted.lose()).count()
    }

    /// What a session has on other nodes, by its names for it.
    pub fn of_session(&self, session: ObjectId) -> impl Iterator<Item = (ObjectId, &T)> {
        let held = self.sessions.get(&session).into_iter();
        held.flat_map(|held| held.table.iter().map(|(place, granted)| (elsewhere(place), granted)))
    }

    /// How many a session has.
    pub fn held(&self, session: ObjectId) -> usize {
        self.sessions.get(&session).map_or(0, |held| held.table.len())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sessions.values().map(|held| held.table.len()).sum()
    }

    /// How many there are by node.
    pub fn by_node(&self) -> HashMap<u64, usize> {
        let mut count = HashMap::new();
        for (_, granted) in self.sessions.values().flat_map(|held| held.table.iter()) {
            *count.entry(granted.via().node).or_default() += 1;
        }
        count
    }

    fn too_many(&self) -> Full {
        Full::of(self.thing, Side::Session, self.per_session as u64)
    }
}

#[cfg(test)]
#[path = "elsewhere_tests.rs"]
mod tests;
