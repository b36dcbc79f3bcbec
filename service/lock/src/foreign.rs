//! Sessions of other nodes as sessions here: each by its node, the link to it, and its name there.
//!
//! ```text
//! (node, link, session there) --first Open--> a session --End, or nothing open--> none
//!                                                 '--the node is lost--> ended, as a dead process's is
//! ```
//! Their names cannot be those of sessions of this node: the index has a bit that none of those has.

use std::collections::HashMap;

use heliostat_abi::cluster::Class;
use heliostat_abi::code::{Side, Thing};
use heliostat_abi::lock::limits::{HANDLES_MAX, TICKETS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use heliostat_service_grant::Full;

/// Sessions of other nodes at once.
pub const FOREIGN_MAX: usize = 4096;
/// Of these, those of one node: it cannot take them from others.
pub const FOREIGN_PER_NODE_MAX: usize = FOREIGN_MAX / 4;
/// Handles and tickets of one other node together: whichever users it names, others have the rest.
pub const GRANTS_PER_NODE_MAX: usize = (HANDLES_MAX + TICKETS_MAX) / 8;
/// The bit. The table of connections is far smaller.
const FOREIGN: u32 = 1 << 31;

/// A session of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// Of which node.
    pub node: u64,
    /// By which link.
    pub link: u64,
    /// Its name there.
    pub session: ObjectId,
    /// Whose, by that node's word.
    pub user: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    who: Foreign,
    grants: usize,
    /// The most urgent in which it has asked.
    class: Class,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct ForeignSessions {
    table: Table<Entry>,
    names: HashMap<(u64, ObjectId), ObjectId>,
    /// Sessions, and handles and tickets, of each link.
    links: HashMap<u64, (usize, usize)>,
    limits: (usize, usize),
}

impl Default for ForeignSessions {
    fn default() -> Self {
        Self::new(FOREIGN_PER_NODE_MAX, GRANTS_PER_NODE_MAX)
    }
}

impl ForeignSessions {
    /// None yet; so many of one node, and so many handles and tickets of theirs.
    pub fn new(sessions: usize, grants: usize) -> Self {
        let (names, links) = (HashMap::new(), HashMap::new());
        Self { table: Table::lean(FOREIGN_MAX), names, links, limits: (sessions, grants) }
    }

    /// Whether a session is one of another node.
    pub const fn is_one(session: ObjectId) -> bool {
        session.index & FOREIGN != 0
    }

    /// The session that a node calls so, if it has something here.
    pub fn find(&self, link: u64, session: ObjectId) -> Option<ObjectId> {
        self.names.get(&(link, session)).copied()
    }

    /// The same; where it has nothing yet, it begins.
    ///
    /// # Errors
    /// There are as many as may be, in all or of that node.
    pub fn meet(&mut self, who: Foreign) -> Result<ObjectId, Full> {
        if let Some(known) = self.find(who.link, who.session) {
            return Ok(known);
        }
        let full = |limit| Full::of(Thing::LockSessions, Side::Node, limit as u64);
        let (sessions, _) = self.links.get(&who.link).copied().unwrap_or_default();
        if sessions >= self.limits.0 {
            return Err(full(self.limits.0));
        }
        let inserted = self.table.insert(Entry { who, grants: 0, class: Class::Low });
        let place = inserted.map_err(|error| full(error.limit))?;
        let session = named(place);
        self.names.insert((who.link, who.session), session);
        self.links.entry(who.link).or_default().0 += 1;
        Ok(session)
    }

    /// Refuses one more handle or ticket to a session whose node has as many as it may.
    ///
    /// # Errors
    /// That limit.
    pub fn check(&self, session: ObjectId) -> Result<(), Full> {
        let link = self.get(session).map(|who| who.link);
        let (_, grants) = link.and_then(|link| self.links.get(&link)).copied().unwrap_or_default();
        let limit = self.limits.1;
        if grants >= limit {
            return Err(Full::of(Thing::LockGrantsOfNode, Side::Node, limit as u64));
        }
        Ok(())
    }

    /// Notes how many handles and tickets a session has now.
    pub fn note(&mut self, session: ObjectId, grants: usize) {
        let Some(entry) = place(session).and_then(|it| self.table.get_mut(it)) else { return };
        let before = std::mem::replace(&mut entry.grants, grants);
        if let Some((_, all)) = self.links.get_mut(&entry.who.link) {
            *all = all.saturating_sub(before) + grants;
        }
    }

    /// Notes how urgent is what a session has asked.
    pub fn hear(&mut self, session: ObjectId, class: Class) {
        if let Some(entry) = place(session).and_then(|it| self.table.get_mut(it)) {
            entry.class = entry.class.max(class);
        }
    }

    /// How urgent are the news of the session that a node calls so.
    pub fn class_of(&self, link: u64, session: ObjectId) -> Class {
        let found = self.find(link, session).and_then(place).and_then(|it| self.table.get(it));
        found.map_or(Class::Normal, |entry| entry.class)
    }

    /// Whose a session is.
    pub fn get(&self, session: ObjectId) -> Option<&Foreign> {
        self.table.get(place(session)?).map(|entry| &entry.who)
    }

    /// A session has ended; whether there was one.
    pub fn end(&mut self, session: ObjectId) -> bool {
        self.note(session, 0);
        let Some(entry) = place(session).and_then(|it| self.table.remove(it)) else { return false };
        let Foreign { link, session, .. } = entry.who;
        self.names.remove(&(link, session));
        if let Some((sessions, _)) = self.links.get_mut(&link) {
            *sessions -= 1;
            if *sessions == 0 {
                self.links.remove(&link);
            }
        }
        true
    }

    /// A link is lost: returns its sessions, which are no more.
    pub fn lose(&mut self, link: u64) -> Vec<ObjectId> {
        let its = self.table.iter().filter(|(_, entry)| entry.who.link == link);
        let its: Vec<_> = its.map(|(place, _)| named(place)).collect();
        its.iter().for_each(|session| {
            self.end(*session);
        });
        its
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &Foreign)> {
        self.table.iter().map(|(place, entry)| (named(place), &entry.who))
    }
}

const fn named(place: ObjectId) -> ObjectId {
    ObjectId { index: place.index | FOREIGN, generation: place.generation }
}

fn place(session: ObjectId) -> Option<ObjectId> {
    ForeignSessions::is_one(session)
        .then_some(ObjectId { index: session.index & !FOREIGN, ..session })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(link: u64, session: u32) -> Foreign {
        let session = ObjectId { index: session, generation: 1 };
        Foreign { node: link, link, session, user: 1000 }
    }

    #[test]
    fn a_session_is_one_as_long_as_it_has_something_and_its_link_stands() {
        let mut all = ForeignSessions::default();
        let one = all.meet(who(1, 1)).unwrap();
        assert!(ForeignSessions::is_one(one));
        assert_eq!(all.meet(who(1, 1)), Ok(one));
        let others = [who(1, 2), who(2, 1)].map(|who| all.meet(who).unwrap());
        assert!(others.iter().all(|other| *other != one));
        assert!(all.end(one) && !all.end(one));
        let again = all.meet(who(1, 1)).unwrap();
        assert!(again != one, "no name comes twice");
        assert_eq!(all.lose(1).len(), 2);
        assert_eq!((all.get(again), all.iter().count()), (None, 1));
        assert_eq!(all.find(1, who(1, 2).session), None);
    }

    #[test]
    fn a_node_has_no_more_than_its_share_whichever_sessions_it_names() {
        let mut all = ForeignSessions::new(2, 5);
        let (one, two) = (all.meet(who(1, 1)).unwrap(), all.meet(who(1, 2)).unwrap());
        let full = Full::of(Thing::LockSessions, Side::Node, 2);
        assert_eq!(all.meet(who(1, 3)), Err(full));
        let other = all.meet(who(2, 1)).unwrap();
        all.note(one, 3);
        all.note(two, 2);
        let full = Full::of(Thing::LockGrantsOfNode, Side::Node, 5);
        assert_eq!(
            (all.check(one), all.check(two), all.check(other)),
            (Err(full), Err(full), Ok(()))
        );
        all.note(two, 1);
        assert_eq!(all.check(one), Ok(()));
        all.end(one);
        all.note(two, 4);
        assert_eq!(all.check(two), Ok(()));
    }
}
