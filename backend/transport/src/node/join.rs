//! How links become peers: the handshake's records, its end, and two links to one node.
//!
//! Two nodes have one link. Where both begin one, neither is used before it is certain which stays:
//! who has joined by the other's link proves nothing on its own, and of two whose proofs cross the
//! node with the smaller number refuses the other's. So links that cross end no call.
//!
//! Where a second one is proven all the same, both sides choose the same of the two: a later life of
//! the node, else the newer link of the same side, else the link that the node with the smaller number
//! began.

use super::peer::{Joined, Peer, Stage};
use super::{Node, NodeEvent, NO_CALL};
use crate::error::{JoinFailure, LostCause};
use crate::frame::{FrameKind, HandshakeKind};
use crate::greeting::{Greeting, JoinRefusal};
use crate::handshake::{Handshake, Progress};
use crate::identity::NodeId;
use crate::limits::LINGER_NS_MAX;
use crate::transport::{LinkId, Transport};

impl<T: Transport> Node<T> {
    /// Begins the handshake of a link that this side connects.
    pub(super) fn begin_join(
        &mut self,
        now_ns: u64,
        link: LinkId,
        wanted: Option<NodeId>,
        deadline_ns: u64,
    ) {
        let deadline_ns = deadline_ns.min(now_ns.saturating_add(self.limits.handshake_ns_max));
        self.add_peer(now_ns, link, wanted, deadline_ns, Handshake::Opening);
    }

    /// A link can be sent on.
    pub(super) fn open(&mut self, now_ns: u64, link: LinkId, is_ours: bool) {
        if !is_ours {
            self.open_stranger(now_ns, link);
            return;
        }
        let Some(peer) = self.peers.get_mut(&link) else { return };
        peer.heard_ns = now_ns;
        peer.stage = Stage::Shaking(Handshake::AwaitsChallenge);
        let hello = peer.ours.encode().to_vec();
        self.say_record(now_ns, link, HandshakeKind::Hello, hello);
    }

    fn open_stranger(&mut self, now_ns: u64, link: LinkId) {
        let strangers =
            self.peers.values().filter(|peer| !peer.is_ours && peer.is_shaking()).count();
        let limit = if self.peers.len() >= self.limits.links_max {
            Some(self.limits.links_max)
        } else {
            Some(self.limits.strangers_max).filter(|limit| strangers >= *limit)
        };
        let deadline_ns = now_ns.saturating_add(self.limits.handshake_ns_max);
        self.add_peer(now_ns, link, None, deadline_ns, Handshake::AwaitsHello);
        if let Some(limit) = limit {
            self.refuse_join(now_ns, link, JoinRefusal::Full { limit: limit as u64 }, false);
        }
    }

    fn add_peer(
        &mut self,
        now_ns: u64,
        link: LinkId,
        wanted: Option<NodeId>,
        deadline_ns: u64,
        handshake: Handshake,
    ) {
        let mut nonce = [0; 32];
        self.nonces.fill(&mut nonce);
        let ours = Greeting {
            kind: self.transport.kind(),
            node: self.me.node,
            incarnation: self.me.incarnation,
            window_bytes: self.limits.window_bytes,
            nonce,
        };
        let is_ours = matches!(handshake, Handshake::Opening);
        let stage = Stage::Shaking(handshake);
        let (heard_ns, said_ns) = (now_ns, now_ns);
        let peer = Peer {
            is_ours,
            ours,
            wanted,
            stage,
            deadline_ns,
            heard_ns,
            said_ns,
            is_alive_queued: false,
        };
        self.peers.insert(link, peer);
        self.check_ns = self.check_ns.min(deadline_ns);
    }

    /// Takes a record of a handshake that is under way.
    pub(super) fn shake(&mut self, now_ns: u64, link: LinkId, kind: HandshakeKind, record: &[u8]) {
        let Some(peer) = self.peers.get_mut(&link) else { return };
        let Stage::Shaking(at) = &mut peer.stage else { return };
        let at = std::mem::replace(at, Handshake::Opening);
        match at.step(kind, record, &self.me, &peer.ours, peer.wanted) {
            Progress::Say(kind, record, next) => {
                peer.stage = Stage::Shaking(next);
                if self.is_overtaken(link) {
                    return self.refuse_join(now_ns, link, JoinRefusal::Duplicate, false);
                }
                self.say_record(now_ns, link, kind, record);
            }
            Progress::Proven(theirs, welcome) => self.settle(now_ns, link, theirs, welcome),
            Progress::Refused { why, is_theirs } => self.refuse_join(now_ns, link, why, is_theirs),
        }
    }

    /// The other side has proven itself: it is joined, unless another link to it goes before.
    fn settle(&mut self, now_ns: u64, link: LinkId, theirs: Greeting, welcome: Option<Vec<u8>>) {
        if let Some(refusal) = self.yields(link, &theirs) {
            return self.refuse_join(now_ns, link, refusal, false);
        }
        if let Some(other) = self.link_to(theirs.node) {
            self.end_peer(now_ns, other, LostCause::Replaced, 0);
        }
        if let Some(record) = welcome {
            self.say_record(now_ns, link, HandshakeKind::Welcome, record);
        }
        let Some(peer) = self.peers.get_mut(&link) else { return };
        let window = theirs.window_bytes.min(peer.ours.window_bytes);
        peer.stage = Stage::Joined(Joined::new(theirs, window));
        let is_ours = peer.is_ours;
        self.by_node.insert(theirs.node, link);
        self.transport.admit(link);
        self.check_ns = now_ns;
        let (node, incarnation) = (theirs.node, theirs.incarnation);
        self.events.push(NodeEvent::Joined { link, node, incarnation, is_ours });
    }

    /// Whether the node that a link of ours has found has joined meanwhile by a link of its own.
    fn is_overtaken(&self, link: LinkId) -> bool {
        let Some(found) = self.peers.get(&link).and_then(Peer::found) else { return false };
        let other = self.link_to(found.node).and_then(|other| self.peers.get(&other));
        other.is_some_and(|other| !other.is_ours && other.is_joined_with(found))
    }

    /// Whether the newly proven `link` gives way to another one to the same node, and with which words.
    fn yields(&self, link: LinkId, theirs: &Greeting) -> Option<JoinRefusal> {
        let new = self.peers.get(&link)?;
        if !new.is_ours && self.me.node < theirs.node && self.proves_itself_to(theirs) {
            return Some(JoinRefusal::Duplicate);
        }
        let old = self.peers.get(&self.link_to(theirs.node)?)?;
        let Stage::Joined(joined) = &old.stage else { return None };
        let (found, wanted) = (theirs.incarnation, joined.theirs.incarnation);
        if found != wanted {
            return Some(JoinRefusal::Outdated { found, wanted }).filter(|_| found < wanted);
        }
        let old_is_first = old.is_ours == (self.me.node < theirs.node);
        Some(JoinRefusal::Duplicate).filter(|_| new.is_ours != old.is_ours && old_is_first)
    }

    /// Whether this life of a node has a proof of ours, and has not answered yet.
    fn proves_itself_to(&self, theirs: &Greeting) -> bool {
        self.peers.values().filter_map(Peer::found).any(|found| found.is_same_life(theirs))
    }

    /// Ends a handshake, and says why unless the other side said it.
    pub(super) fn refuse_join(
        &mut self,
        now_ns: u64,
        link: LinkId,
        why: JoinRefusal,
        is_theirs: bool,
    ) {
        if !is_theirs {
            self.say_record(now_ns, link, HandshakeKind::Refuse, why.encode().to_vec());
        }
        self.transport.close(now_ns, link, LINGER_NS_MAX);
        self.fail_join(link, JoinFailure::Refused { why, is_theirs });
    }

    /// Forgets a link that was not joined.
    pub(super) fn fail_join(&mut self, link: LinkId, why: JoinFailure) {
        let Some(peer) = self.peers.remove(&link) else { return };
        if peer.is_ours {
            self.events.push(NodeEvent::NotJoined { link, why });
        } else {
            self.counters.strangers += 1;
        }
    }

    /// A record that the transport does not take is missed by the other side, whose handshake then
    /// runs out of time.
    fn say_record(&mut self, now_ns: u64, link: LinkId, kind: HandshakeKind, record: Vec<u8>) {
        let _ = self.say(now_ns, link, FrameKind::Handshake(kind), &[], record, NO_CALL);
    }
}

impl Peer {
    fn is_shaking(&self) -> bool {
        matches!(self.stage, Stage::Shaking(_))
    }

    /// Whom a link of ours has found, from the proof to the welcome.
    fn found(&self) -> Option<&Greeting> {
        match &self.stage {
            Stage::Shaking(handshake) => handshake.awaits_welcome_of(),
            Stage::Joined(_) => None,
        }
    }

    fn is_joined_with(&self, life: &Greeting) -> bool {
        matches!(&self.stage, Stage::Joined(joined) if joined.theirs.is_same_life(life))
    }
}
