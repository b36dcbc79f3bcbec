//! Users of other nodes as sessions of their own: one for each link and user, and what each has found.
//!
//! ```text
//! (link, user) --first Find--> a session --the node is lost--> ended, as a dead process's is
//! Find: one use more of a function    Leave: one less; the last one leaves it
//! ```
//! Several programs of a user of a node are one session here, so their uses are counted. The names of
//! these sessions cannot be those of sessions of this node: the index has a bit that none of those has.

use std::collections::HashMap;

use heliostat_abi::name::ObjectId;
use heliostat_abi::table::{Table, TableFull};

/// Users of other nodes at once.
pub const PEER_SESSIONS_MAX: usize = 4096;
/// Of these, those of one node: it cannot take them from others.
pub const PEER_SESSIONS_PER_NODE_MAX: usize = PEER_SESSIONS_MAX / 4;
/// The bit. The table of connections is far smaller.
const OF_PEER: u32 = 1 << 31;

/// A user of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PeerUser {
    /// Of which node.
    pub node: u64,
    /// By which link.
    pub link: u64,
    /// Who, by that node's word.
    pub user: u32,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct PeerSessions {
    table: Table<PeerUser>,
    names: HashMap<PeerUser, ObjectId>,
    uses: HashMap<(ObjectId, ObjectId), u32>,
}

impl Default for PeerSessions {
    fn default() -> Self {
        let table = Table::lean(PEER_SESSIONS_MAX);
        Self { table, names: HashMap::new(), uses: HashMap::new() }
    }
}

impl PeerSessions {
    /// Whether a session is a user of another node.
    pub const fn is_one(session: ObjectId) -> bool {
        session.index & OF_PEER != 0
    }

    /// The session of a user, which begins with the first request.
    ///
    /// # Errors
    /// There are as many as may be.
    pub fn meet(&mut self, who: PeerUser) -> Result<ObjectId, TableFull> {
        if let Some(known) = self.names.get(&who) {
            return Ok(*known);
        }
        let of_node = self.table.iter().filter(|(_, other)| other.node == who.node).count();
        if of_node >= PEER_SESSIONS_PER_NODE_MAX {
            return Err(TableFull { limit: PEER_SESSIONS_PER_NODE_MAX });
        }
        let place = self.table.insert(who)?;
        let session = ObjectId { index: place.index | OF_PEER, ..place };
        self.names.insert(who, session);
        Ok(session)
    }

    /// Whose a session is.
    pub fn get(&self, session: ObjectId) -> Option<&PeerUser> {
        if !Self::is_one(session) {
            return None;
        }
        self.table.get(ObjectId { index: session.index & !OF_PEER, ..session })
    }

    /// A session has found a function once more.
    pub fn add_use(&mut self, session: ObjectId, function: ObjectId) {
        let uses = self.uses.entry((session, function)).or_default();
        *uses = uses.saturating_add(1);
    }

    /// A session uses a function once less; whether that was the last time.
    pub fn end_use(&mut self, session: ObjectId, function: ObjectId) -> bool {
        let Some(uses) = self.uses.get_mut(&(session, function)) else { return false };
        *uses -= 1;
        let is_last = *uses == 0;
        if is_last {
            self.uses.remove(&(session, function));
        }
        is_last
    }

    /// A function is gone: nobody uses it any more.
    pub fn forget(&mut self, function: ObjectId) {
        self.uses.retain(|(_, other), _| *other != function);
    }

    /// A node is lost: returns the sessions of that link, which are no more.
    pub fn lose(&mut self, node: u64, link: u64) -> Vec<ObjectId> {
        let is_its = |who: &PeerUser| (who.node, who.link) == (node, link);
        let its = self.names.iter().filter(|(who, _)| is_its(who)).map(|(_, session)| *session);
        let its: Vec<_> = its.collect();
        for session in &its {
            self.table.remove(ObjectId { index: session.index & !OF_PEER, ..*session });
        }
        self.names.retain(|who, _| !is_its(who));
        self.uses.retain(|(session, _), _| !its.contains(session));
        its
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(node: u64, user: u32) -> PeerUser {
        PeerUser { node, link: 7, user }
    }

    #[test]
    fn a_user_of_a_node_is_one_session_until_the_node_is_lost() {
        let mut peers = PeerSessions::default();
        let one = peers.meet(who(1, 1000)).unwrap();
        assert!(PeerSessions::is_one(one));
        assert_eq!(peers.meet(who(1, 1000)), Ok(one));
        let reborn = PeerUser { link: 8, ..who(1, 1000) };
        let others = [who(1, 1001), who(2, 1000), reborn].map(|who| peers.meet(who).unwrap());
        assert!(others.iter().all(|other| *other != one));
        assert_eq!(peers.lose(1, 7).len(), 2);
        assert_eq!((peers.get(one), peers.count()), (None, 2));
        assert_ne!(peers.meet(who(3, 1000)).unwrap(), one, "no name comes twice");
    }

    #[test]
    fn one_node_has_no_more_than_its_own() {
        let mut peers = PeerSessions::default();
        (0..1024).for_each(|user| _ = peers.meet(who(1, user)).unwrap());
        let full = TableFull { limit: PEER_SESSIONS_PER_NODE_MAX };
        assert_eq!(peers.meet(who(1, 5000)), Err(full));
        assert!(peers.meet(who(2, 5000)).is_ok() && peers.meet(who(1, 7)).is_ok());
    }

    #[test]
    fn a_function_is_left_with_its_last_use() {
        let mut peers = PeerSessions::default();
        let session = peers.meet(who(1, 1000)).unwrap();
        let function = ObjectId { index: 3, generation: 1 };
        [(), ()].iter().for_each(|()| peers.add_use(session, function));
        assert!(!peers.end_use(session, function) && peers.end_use(session, function));
        assert!(!peers.end_use(session, function), "one that was not counted");
    }
}
