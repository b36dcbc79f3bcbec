//! Users of other nodes as sessions of their own: one for each node, link to it, and user.
//!
//! ```text
//! (node, user) --first request--> a session --the node is lost--> ended, as a dead process's is
//! ```
//! Their names cannot be those of sessions of this node: the index has a bit that none of those has.

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerUser {
    /// Of which node.
    pub node: u64,
    /// By which link.
    pub link: u64,
    /// Who, by that node's word.
    pub user: u32,
    /// Whether these are the user's restricted programs there, which are somebody else here.
    pub is_restricted: bool,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct PeerSessions {
    table: Table<PeerUser>,
    names: HashMap<(u64, u64, u32, bool), ObjectId>,
}

impl Default for PeerSessions {
    fn default() -> Self {
        Self { table: Table::lean(PEER_SESSIONS_MAX), names: HashMap::new() }
    }
}

impl PeerSessions {
    /// Whether a session is a user of another node.
    pub const fn is_one(session: ObjectId) -> bool {
        session.index & OF_PEER != 0
    }

    /// The session of a user, and whether it begins now.
    ///
    /// # Errors
    /// There are as many as may be.
    pub fn meet(&mut self, who: PeerUser) -> Result<(ObjectId, bool), TableFull> {
        let key = (who.node, who.link, who.user, who.is_restricted);
        if let Some(known) = self.names.get(&key) {
            return Ok((*known, false));
        }
        let of_node = self.table.iter().filter(|(_, other)| other.node == who.node).count();
        if of_node >= PEER_SESSIONS_PER_NODE_MAX {
            return Err(TableFull { limit: PEER_SESSIONS_PER_NODE_MAX });
        }
        let place = self.table.insert(who)?;
        let session = ObjectId { index: place.index | OF_PEER, ..place };
        self.names.insert(key, session);
        Ok((session, true))
    }

    /// Whose a session is.
    pub fn get(&self, session: ObjectId) -> Option<&PeerUser> {
        if !Self::is_one(session) {
            return None;
        }
        self.table.get(ObjectId { index: session.index & !OF_PEER, ..session })
    }

    /// A node is lost: returns the sessions of that link, which are no more.
    pub fn lose(&mut self, node: u64, link: u64) -> Vec<ObjectId> {
        let its: Vec<_> =
            self.table.iter().filter(|(_, who)| (who.node, who.link) == (node, link)).collect();
        let its: Vec<_> = its.into_iter().map(|(place, _)| place).collect();
        its.iter().for_each(|place| {
            self.table.remove(*place);
        });
        self.names.retain(|(its, other, ..), _| (*its, *other) != (node, link));
        its.into_iter().map(|it| ObjectId { index: it.index | OF_PEER, ..it }).collect()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &PeerUser)> {
        let named = |it: ObjectId| ObjectId { index: it.index | OF_PEER, ..it };
        self.table.iter().map(move |(place, who)| (named(place), who))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(node: u64, user: u32) -> PeerUser {
        PeerUser { node, link: 7, user, is_restricted: false }
    }

    #[test]
    fn a_user_is_one_session_as_long_as_the_node_is_joined() {
        let mut peers = PeerSessions::default();
        let (one, is_new) = peers.meet(who(1, 1000)).unwrap();
        assert!(is_new && PeerSessions::is_one(one));
        assert_eq!(peers.meet(who(1, 1000)), Ok((one, false)));
        let restricted = PeerUser { is_restricted: true, ..who(1, 1000) };
        let reborn = PeerUser { link: 8, ..who(1, 1000) };
        let others =
            [restricted, who(1, 1001), who(2, 1000), reborn].map(|who| peers.meet(who).unwrap());
        assert!(others.iter().all(|(other, is_new)| *other != one && *is_new));
        assert_eq!(peers.lose(1, 7).len(), 3);
        assert_eq!((peers.get(one), peers.iter().count()), (None, 2));
        let (again, is_new) = peers.meet(who(3, 1000)).unwrap();
        assert!(is_new && again != one, "no name comes twice");
    }

    #[test]
    fn there_are_no_more_than_may_be() {
        let mut peers = PeerSessions::default();
        for (node, user) in (0..4).flat_map(|node| (0..1024).map(move |user| (node, user))) {
            peers.meet(who(node, user)).unwrap();
        }
        let of_node = TableFull { limit: PEER_SESSIONS_PER_NODE_MAX };
        assert_eq!(peers.meet(who(1, u32::MAX)), Err(of_node));
        assert_eq!(peers.meet(who(9, 1)), Err(TableFull { limit: PEER_SESSIONS_MAX }));
        assert!(peers.meet(who(1, 0)).is_ok(), "those that are known go on");
    }
}
