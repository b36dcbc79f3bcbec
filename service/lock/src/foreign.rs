//! Sessions of other nodes as sessions here: each by its node, the link to it, and its name there.
//!
//! ```text
//! (node, link, session there) --first Open--> a session --End, or nothing open--> none
//!                                                 '--the node is lost--> ended, as a dead process's is
//! ```
//! One that has nothing here is none, and counts for nothing.

use std::collections::HashMap;

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::lock::limits::{HANDLES_MAX, TICKETS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Full, Peer, PeerSessions, Via};

/// Handles and tickets of one other node together: whichever users it names, others have the rest.
const GRANTS_PER_NODE_MAX: usize = (HANDLES_MAX + TICKETS_MAX) / 8;

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

impl Peer for Foreign {
    type Key = ObjectId;

    fn via(&self) -> Via {
        Via { node: self.node, link: self.link }
    }

    fn key(&self) -> ObjectId {
        self.session
    }
}

/// All of them.
#[derive(Clone, Debug)]
pub struct ForeignSessions {
    sessions: PeerSessions<Foreign>,
    /// Handles and tickets of each session, and of each link.
    grants: HashMap<ObjectId, usize>,
    of_link: HashMap<Via, usize>,
    grants_per_node: usize,
}

impl Default for ForeignSessions {
    fn default() -> Self {
        Self::of(PeerSessions::default(), GRANTS_PER_NODE_MAX)
    }
}

impl ForeignSessions {
    fn of(sessions: PeerSessions<Foreign>, grants_per_node: usize) -> Self {
        Self { sessions, grants: HashMap::new(), of_link: HashMap::new(), grants_per_node }
    }

    /// The session that a node calls so, if it has something here.
    pub fn find(&self, via: Via, session: ObjectId) -> Option<ObjectId> {
        self.sessions.find(via, session)
    }

    /// The same; where it has nothing yet, it begins.
    ///
    /// # Errors
    /// There are as many as may be, in all or of that node.
    pub fn meet(&mut self, who: Foreign) -> Result<ObjectId, Full> {
        let met = self.sessions.meet(who).map(|(session, _)| session);
        met.map_err(|error| Full::of(Thing::LockSessions, Side::Node, error.limit as u64))
    }

    /// Refuses one more handle or ticket to a session whose node has as many as it may.
    ///
    /// # Errors
    /// That limit.
    pub fn check(&self, session: ObjectId) -> Result<(), Full> {
        let grants = self.get(session).and_then(|who| self.of_link.get(&who.via()));
        let limit = self.grants_per_node;
        if grants.is_some_and(|its| *its >= limit) {
            return Err(Full::of(Thing::LockGrantsOfNode, Side::Node, limit as u64));
        }
        Ok(())
    }

    /// Notes how many handles and tickets a session has now.
    pub fn note(&mut self, session: ObjectId, grants: usize) {
        let Some(via) = self.get(session).map(Foreign::via) else { return };
        let before = match grants {
            0 => self.grants.remove(&session),
            _ => self.grants.insert(session, grants),
        };
        let all = self.of_link.entry(via).or_default();
        *all = all.saturating_sub(before.unwrap_or(0)) + grants;
        if *all == 0 {
            self.of_link.remove(&via);
        }
    }

    /// Whose a session is.
    pub fn get(&self, session: ObjectId) -> Option<&Foreign> {
        self.sessions.get(session)
    }

    /// A session has ended; whether there was one.
    pub fn end(&mut self, session: ObjectId) -> bool {
        self.note(session, 0);
        self.sessions.end(session).is_some()
    }

    /// A link is lost: returns its sessions, which are no more.
    pub fn lose(&mut self, via: Via) -> Vec<ObjectId> {
        let its = self.sessions.lose(via);
        self.grants.retain(|session, _| !its.contains(session));
        self.of_link.remove(&via);
        its
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sessions.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_service_grant::is_of_peer;

    fn who(link: u64, session: u32) -> Foreign {
        let session = ObjectId { index: session, generation: 1 };
        Foreign { node: link, link, session, user: 1000 }
    }

    #[test]
    fn a_session_is_one_as_long_as_it_has_something_and_its_link_stands() {
        let mut all = ForeignSessions::default();
        let one = all.meet(who(1, 1)).unwrap();
        assert!(is_of_peer(one));
        assert_eq!(all.meet(who(1, 1)), Ok(one));
        let others = [who(1, 2), who(2, 1)].map(|who| all.meet(who).unwrap());
        assert!(others.iter().all(|other| *other != one));
        assert!(all.end(one) && !all.end(one));
        let again = all.meet(who(1, 1)).unwrap();
        assert!(again != one, "no name comes twice");
        assert_eq!(all.lose(who(1, 0).via()).len(), 2);
        assert_eq!((all.get(again), all.count()), (None, 1));
        assert_eq!(all.find(who(1, 0).via(), who(1, 2).session), None);
    }

    #[test]
    fn a_node_has_no_more_than_its_share_whichever_sessions_it_names() {
        let mut all = ForeignSessions::of(PeerSessions::new(2), 5);
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
