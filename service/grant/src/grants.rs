//! Objects of one kind, the sessions that hold each, and how many of them one may hold.
//!
//! ```text
//!        grant                share                 leave            leave, the last
//! none -------> one holder ---------> more holders -------> fewer ----------------> (caller)
//!                                                                                     | remove
//!                                            gone, its identity never given again <---'
//! ```
//!
//! An object counts once against its first holder's share, however many sessions hold it. What a
//! session holds is an index into the objects, kept here alone, so that the two cannot disagree.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::name::ObjectId;

use crate::quota::{Holder, Quota, QuotaTable, Shares};
use crate::refusal::Full;

/// How many objects of a kind there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// That one session holds.
    pub per_session: usize,
    /// That one user has, and the node.
    pub shares: Shares,
}

/// An object with its holders; `H` is what is kept for each.
#[derive(Clone, Debug)]
struct Grant<T, H> {
    object: T,
    sessions: BTreeMap<ObjectId, H>,
}

/// The objects of one kind.
#[derive(Clone, Debug)]
pub struct Grants<T, H = ()> {
    thing: Thing,
    per_session: usize,
    table: QuotaTable<Grant<T, H>>,
    held: HashMap<ObjectId, BTreeSet<ObjectId>>,
}

impl<T, H: Default> Grants<T, H> {
    /// None yet, and never more than `places`, whatever the limit says.
    pub fn new(thing: Thing, places: usize, limit: Limit) -> Self {
        let Limit { per_session, shares } = limit;
        Self { thing, per_session, table: QuotaTable::new(places, shares), held: HashMap::new() }
    }

    /// New limits for what is asked from now on; what was granted stays.
    pub fn set_limit(&mut self, limit: Limit) {
        self.per_session = limit.per_session;
        self.table.set_shares(limit.shares);
    }

    /// Refuses a session that holds as many as one may.
    pub fn check(&self, session: ObjectId) -> Result<(), Full> {
        if self.count_of(session) >= self.per_session {
            return Err(Full::of(self.thing, Side::Session, self.per_session as u64));
        }
        Ok(())
    }

    /// Gives a session a new object, which counts against a share.
    ///
    /// # Errors
    /// The session, its user, its sealed program or the node has as many as it may.
    pub fn grant(&mut self, session: ObjectId, share: Holder, object: T) -> Result<ObjectId, Full> {
        self.check(session)?;
        let grant = Grant { object, sessions: BTreeMap::from([(session, H::default())]) };
        let inserted = self.table.insert(share, grant);
        let id = inserted.map_err(|it| Full::shared(self.thing, it))?;
        self.held.entry(session).or_default().insert(id);
        Ok(id)
    }

    /// Lets another session hold an object too. Nothing happens when the object is gone.
    ///
    /// # Errors
    /// The session holds as many as it may.
    pub fn share(&mut self, session: ObjectId, id: ObjectId) -> Result<(), Full> {
        if self.has(session, id) {
            return Ok(());
        }
        self.check(session)?;
        let Some(grant) = self.table.get_mut(id) else { return Ok(()) };
        grant.sessions.entry(session).or_default();
        self.held.entry(session).or_default().insert(id);
        Ok(())
    }

    /// Takes an object from a session. Answers how many hold it still, or `None` when the session
    /// does not hold it.
    pub fn leave(&mut self, session: ObjectId, id: ObjectId) -> Option<usize> {
        let grant = self.table.get_mut(id)?;
        grant.sessions.remove(&session)?;
        let left = grant.sessions.len();
        self.unlist(session, id);
        Some(left)
    }

    /// Forgets an object, whoever holds it.
    pub fn remove(&mut self, id: ObjectId) -> Option<T> {
        let Grant { object, sessions } = self.table.remove(id)?;
        sessions.into_keys().for_each(|session| self.unlist(session, id));
        Some(object)
    }

    fn unlist(&mut self, session: ObjectId, id: ObjectId) {
        let Some(held) = self.held.get_mut(&session) else { return };
        held.remove(&id);
        if held.is_empty() {
            self.held.remove(&session);
        }
    }

    /// Whether a session holds an object.
    pub fn has(&self, session: ObjectId, id: ObjectId) -> bool {
        self.held.get(&session).is_some_and(|held| held.contains(&id))
    }

    /// What a session holds, in order of index.
    pub fn of(&self, session: ObjectId) -> impl Iterator<Item = ObjectId> + '_ {
        self.held.get(&session).into_iter().flatten().copied()
    }

    /// How many a session holds.
    pub fn count_of(&self, session: ObjectId) -> usize {
        self.held.get(&session).map_or(0, BTreeSet::len)
    }

    /// Sessions that hold something.
    pub fn session_count(&self) -> usize {
        self.held.len()
    }

    /// An object.
    pub fn get(&self, id: ObjectId) -> Option<&T> {
        self.table.get(id).map(|grant| &grant.object)
    }

    /// An object, to change.
    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut T> {
        self.table.get_mut(id).map(|grant| &mut grant.object)
    }

    /// An object and what is kept for a session that holds it.
    pub fn held(&self, session: ObjectId, id: ObjectId) -> Option<(&T, &H)> {
        let grant = self.table.get(id)?;
        Some((&grant.object, grant.sessions.get(&session)?))
    }

    /// An object and what is kept for a session that holds it, to change.
    pub fn get_held(&mut self, session: ObjectId, id: ObjectId) -> Option<(&mut T, &mut H)> {
        let grant = self.table.get_mut(id)?;
        Some((&mut grant.object, grant.sessions.get_mut(&session)?))
    }

    /// The sessions that hold an object, with what is kept for each.
    pub fn sessions(&self, id: ObjectId) -> impl Iterator<Item = (ObjectId, &H)> {
        let grant = self.table.get(id).into_iter();
        grant.flat_map(|grant| grant.sessions.iter().map(|(session, kept)| (*session, kept)))
    }

    /// The session that holds an object, of those that are held by one alone.
    pub fn session(&self, id: ObjectId) -> Option<ObjectId> {
        self.sessions(id).next().map(|(session, _)| session)
    }

    /// Whose share an object counts against.
    pub fn share_of(&self, id: ObjectId) -> Option<Holder> {
        self.table.holder(id)
    }

    /// Every object, in order of index.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &T)> {
        self.table.iter().map(|(id, grant)| (id, &grant.object))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Who has how many.
    pub fn quota(&self) -> (Thing, &Quota) {
        (self.thing, self.table.quota())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares = Shares { user: 3, ..Shares::whole(10) };
    const USER: Holder = Holder::user(7);

    fn session(index: u32) -> ObjectId {
        ObjectId { index, generation: 1 }
    }

    fn grants() -> Grants<char, u32> {
        Grants::new(Thing::Ports, 10, Limit { per_session: 2, shares: SHARES })
    }

    #[test]
    fn limits_of_the_session_come_before_those_of_its_user() {
        let mut grants = grants();
        for _ in 0..2 {
            grants.grant(session(1), USER, 'a').unwrap();
        }
        let of_session = Full::of(Thing::Ports, Side::Session, 2);
        assert_eq!(grants.grant(session(1), USER, 'b'), Err(of_session));
        grants.grant(session(2), USER, 'c').unwrap();
        let of_user = Full::of(Thing::Ports, Side::User, 3);
        assert_eq!(grants.grant(session(2), USER, 'd'), Err(of_user));
        assert_eq!(grants.count_of(session(2)), 1);
    }

    #[test]
    fn an_object_stays_until_the_last_leaves_and_is_counted_once() {
        let mut grants = grants();
        let id = grants.grant(session(1), USER, 'a').unwrap();
        grants.share(session(2), id).unwrap();
        grants.share(session(2), id).unwrap();
        assert_eq!(grants.quota().1.used_by_all(), 1);
        *grants.get_held(session(2), id).unwrap().1 += 5;
        assert_eq!(grants.sessions(id).map(|(_, kept)| *kept).collect::<Vec<_>>(), [0, 5]);
        assert_eq!(grants.leave(session(1), id), Some(1));
        assert_eq!(grants.leave(session(1), id), None);
        assert_eq!(grants.leave(session(2), id), Some(0));
        assert_eq!(grants.remove(id), Some('a'));
        assert_eq!((grants.len(), grants.session_count()), (0, 0));
    }

    #[test]
    fn an_object_that_is_removed_is_held_by_nobody_and_its_name_is_not_given_again() {
        let limit = Limit { per_session: 2, shares: SHARES };
        let mut grants: Grants<char> = Grants::new(Thing::Ports, 1, limit);
        let id = grants.grant(session(1), USER, 'a').unwrap();
        grants.share(session(2), id).unwrap();
        assert_eq!(grants.remove(id), Some('a'));
        assert!(!grants.has(session(1), id) && grants.of(session(2)).next().is_none());
        let next = grants.grant(session(1), USER, 'b').unwrap();
        assert_eq!(next.index, id.index);
        assert_ne!(next.generation, id.generation);
        assert_eq!(grants.get(id), None);
    }

    #[test]
    fn a_limit_that_sinks_takes_nothing_away() {
        let mut grants = grants();
        let id = grants.grant(session(1), USER, 'a').unwrap();
        grants.set_limit(Limit { per_session: 0, shares: SHARES });
        assert!(grants.has(session(1), id));
        assert!(grants.grant(session(1), USER, 'b').is_err());
    }
}
