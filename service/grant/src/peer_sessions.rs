//! Users or sessions of other nodes as sessions of this one.
//!
//! ```text
//! (link, who there) --first request--> a session --the node is lost--> ended, as a dead process's is
//! ```
//! Their names cannot be those of sessions of this node: the index has a bit that none of those has.

use std::collections::HashMap;
use std::hash::Hash;

use heliostat_abi::name::ObjectId;
use heliostat_abi::table::{Table, TableFull};

use crate::elsewhere::Via;

/// Sessions of all other nodes at once, of one service.
const PEER_SESSIONS_MAX: usize = 4096;
/// Of these, those of one node: it cannot take them from others.
const PEER_SESSIONS_PER_NODE_MAX: usize = PEER_SESSIONS_MAX / 4;
/// The bit. The table of connections is far smaller.
const OF_PEER: u32 = 1 << 31;

/// Somebody on another node who has a session here.
pub trait Peer: Copy {
    /// What tells apart those of one link.
    type Key: Copy + Eq + Hash;
    /// Of which node, and by which link.
    fn via(&self) -> Via;
    /// Who of those of that link.
    fn key(&self) -> Self::Key;
}

/// A user of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
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

impl Peer for PeerUser {
    type Key = (u32, bool);

    fn via(&self) -> Via {
        Via { node: self.node, link: self.link }
    }

    fn key(&self) -> (u32, bool) {
        (self.user, self.is_restricted)
    }
}

/// Whether a session is one of another node.
pub const fn is_of_peer(session: ObjectId) -> bool {
    session.index & OF_PEER != 0
}

/// All of them.
#[derive(Clone, Debug)]
pub struct PeerSessions<P: Peer = PeerUser> {
    table: Table<P>,
    names: HashMap<(Via, P::Key), ObjectId>,
    of_node: HashMap<u64, usize>,
    per_node: usize,
}

impl<P: Peer> Default for PeerSessions<P> {
    fn default() -> Self {
        Self::new(PEER_SESSIONS_PER_NODE_MAX)
    }
}

impl<P: Peer> PeerSessions<P> {
    /// None yet; so many may be of one node.
    pub fn new(per_node: usize) -> Self {
        let (names, of_node) = (HashMap::new(), HashMap::new());
        Self { table: Table::lean(PEER_SESSIONS_MAX), names, of_node, per_node }
    }

    /// The session of somebody, if it has begun.
    pub fn find(&self, via: Via, key: P::Key) -> Option<ObjectId> {
        self.names.get(&(via, key)).copied()
    }

    /// The same; where there is none it begins. And whether it begins now.
    ///
    /// # Errors
    /// There are as many as may be, in all or of that node.
    pub fn meet(&mut self, who: P) -> Result<(ObjectId, bool), TableFull> {
        let via = who.via();
        if let Some(known) = self.find(via, who.key()) {
            return Ok((known, false));
        }
        if self.of_node.get(&via.node).is_some_and(|its| *its >= self.per_node) {
            return Err(TableFull { limit: self.per_node });
        }
        let session = named(self.table.insert(who)?);
        self.names.insert((via, who.key()), session);
        *self.of_node.entry(via.node).or_default() += 1;
        Ok((session, true))
    }

    /// Whose a session is.
    pub fn get(&self, session: ObjectId) -> Option<&P> {
        self.table.get(place(session)?)
    }

    /// A session has ended; whose it was.
    pub fn end(&mut self, session: ObjectId) -> Option<P> {
        let who = self.table.remove(place(session)?)?;
        let via = who.via();
        self.names.remove(&(via, who.key()));
        if let Some(its) = self.of_node.get_mut(&via.node) {
            *its -= 1;
            if *its == 0 {
                self.of_node.remove(&via.node);
            }
        }
        Some(who)
    }

    /// A node is lost: returns the sessions of that link, which are no more.
    pub fn lose(&mut self, via: Via) -> Vec<ObjectId> {
        let its = self.table.iter().filter(|(_, who)| who.via() == via);
        let its: Vec<_> = its.map(|(place, _)| named(place)).collect();
        for session in &its {
            self.end(*session);
        }
        its
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &P)> {
        self.table.iter().map(|(place, who)| (named(place), who))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }
}

const fn named(place: ObjectId) -> ObjectId {
    ObjectId { index: place.index | OF_PEER, generation: place.generation }
}

fn place(session: ObjectId) -> Option<ObjectId> {
    is_of_peer(session).then_some(ObjectId { index: session.index & !OF_PEER, ..session })
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
        assert!(is_new && is_of_peer(one));
        assert_eq!(peers.meet(who(1, 1000)), Ok((one, false)));
        let restricted = PeerUser { is_restricted: true, ..who(1, 1000) };
        let reborn = PeerUser { link: 8, ..who(1, 1000) };
        let others =
            [restricted, who(1, 1001), who(2, 1000), reborn].map(|who| peers.meet(who).unwrap());
        assert!(others.iter().all(|(other, is_new)| *other != one && *is_new));
        assert_eq!(peers.lose(who(1, 0).via()).len(), 3);
        assert_eq!((peers.get(one), peers.count()), (None, 2));
        assert_eq!(peers.find(who(1, 0).via(), (1000, false)), None);
        let (again, is_new) = peers.meet(who(3, 1000)).unwrap();
        assert!(is_new && again != one, "no name comes twice");
    }

    #[test]
    fn a_session_that_has_ended_makes_room() {
        let mut peers = PeerSessions::new(1);
        let (one, _) = peers.meet(who(1, 1)).unwrap();
        assert_eq!(peers.meet(who(1, 2)), Err(TableFull { limit: 1 }));
        assert_eq!((peers.end(one), peers.end(one)), (Some(who(1, 1)), None));
        let (again, is_new) = peers.meet(who(1, 1)).unwrap();
        assert!(is_new && again != one);
        assert_eq!(peers.end(ObjectId { index: 0, generation: 1 }), None, "one of this node");
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
