//! Sessions of other nodes: what they ask of this control plane, and their end.
//!
//! ```text
//! request of a node --the user is that node's word--> session of that node's session --> as any session's
//! End, or the node is lost --> it has ended, as if its process had died
//! ```
//! A node is believed which of its users asks, unless the configuration says no. Everything else is
//! looked up here: rules, handles, tickets, limits. Root and the owner of this control plane are ordinary
//! users when they come from another node.

use heliostat_abi::code::Code;
use heliostat_abi::lock::peer::{PeerLock, PeerNews, PeerReply};
use heliostat_abi::lock::{LockName, LockRequest};
use heliostat_abi::name::ObjectId;
use heliostat_control::rights::Right;
use heliostat_server_node::PeerNode;
use heliostat_service_grant::{is_of_peer, Holder, Peer};
use heliostat_service_lock::{Asker, Foreign};
use tracing::debug;

use super::requests::Who;
use crate::daemon::Daemon;
use crate::refused::Refused;
use crate::services::cluster::{peer_subject, to_peer, via};

impl Daemon {
    /// Answers a message of another node. Both parts are foreign.
    pub(super) fn answer_lock_peer(
        &mut self,
        peer: PeerNode,
        header: &[u8],
        payload: &[u8],
    ) -> PeerReply {
        let asked = PeerLock::decode(header, payload).map_err(|error| {
            debug!(node = %peer.node, %error, "a malformed request of another node");
            Refused::from(Code::BadRecord)
        });
        let answer = asked.and_then(|asked| match asked {
            PeerLock::Ask { user, process, session, request } => {
                debug!(node = %peer.node, user, process, ?request, "asked by another node");
                let (node, link) = (peer.node.0, peer.link.0);
                self.answer_foreign(Foreign { node, link, session, user }, request)
            }
            PeerLock::End { session } => {
                let known = self.services.lock.across.foreign.find(via(peer), session);
                if let Some(session) = known {
                    self.end_foreign(session);
                }
                Ok(PeerReply::Done)
            }
            PeerLock::News(news) => {
                self.hear_lock_news(peer, news);
                Ok(PeerReply::Done)
            }
        });
        self.reply_or_refusal(answer)
    }

    fn answer_foreign(
        &mut self,
        from: Foreign,
        request: LockRequest,
    ) -> Result<PeerReply, Refused> {
        self.check_peer_user(from.user)?;
        let foreign = &mut self.services.lock.across.foreign;
        let session = match &request {
            // It needs none.
            LockRequest::List { .. } => from.session,
            LockRequest::Open { .. } => foreign.meet(from)?,
            _ => foreign.find(from.via(), from.session).ok_or(Code::NotFound)?,
        };
        if foreign.get(session).is_some_and(|known| known.user != from.user) {
            return Err(Code::BadRecord.into());
        }
        // Never trusted: a share of its own user's, as any user of this node has.
        let holder = Holder::user(self.subordinates.owner_of(from.user));
        let asker = Asker { session, holder };
        let who = Who { asker, uid: from.user, sees_all: false };
        if matches!(request, LockRequest::List { .. }) {
            return to_peer(session, self.answer_lock_as(&who, request)?);
        }
        let takes_more = matches!(
            request,
            LockRequest::Open { .. } | LockRequest::Acquire { .. } | LockRequest::Arrive { .. }
        );
        let foreign = &self.services.lock.across.foreign;
        let may = if takes_more { foreign.check(session) } else { Ok(()) };
        let answer = match may {
            Ok(()) => self.answer_lock_as(&who, request),
            Err(full) => Err(full.into()),
        };
        self.note_foreign(session);
        to_peer(session, answer?)
    }

    /// Notes how much a session has; one that has nothing is none.
    fn note_foreign(&mut self, session: ObjectId) {
        let lock = &mut self.services.lock;
        match lock.grants.count_of(session) {
            0 => self.end_foreign(session),
            count => lock.across.foreign.note(session, count),
        }
    }

    fn end_foreign(&mut self, session: ObjectId) {
        let mut effects = Vec::new();
        let lock = &mut self.services.lock;
        lock.across.foreign.end(session);
        lock.grants.end(session, &mut effects);
        self.carry_out_lock(effects);
    }

    /// A node is lost: what its sessions have here ends.
    pub(super) fn end_foreign_locks(&mut self, peer: PeerNode) {
        let lock = &mut self.services.lock;
        let sessions = lock.across.foreign.lose(via(peer));
        let mut effects = Vec::new();
        sessions.iter().for_each(|session| lock.grants.end(*session, &mut effects));
        self.carry_out_lock(effects);
    }

    /// A node says what became of tickets there.
    fn hear_lock_news(&mut self, peer: PeerNode, news: Vec<PeerNews>) {
        let mut rung = Vec::new();
        let lock = &mut self.services.lock;
        for PeerNews { session, event } in news {
            let (link, there) = (peer.link.0, event.ticket);
            if lock.across.remotes.knows(link, there) {
                rung.extend(lock.across.remotes.hear(link, there, event.outcome));
            } else if let Some((_, outbox)) = lock.across.outboxes.get_mut(&link) {
                outbox.keep_early(session, there, event.outcome);
            }
        }
        rung.sort_unstable();
        rung.dedup();
        rung.into_iter().for_each(|session| lock.ring(session));
    }

    /// Refuses somebody who may not open a name, and counts it for people.
    pub(super) fn check_lock_right(
        &mut self,
        who: &Who,
        name: &LockName,
        owner: u32,
    ) -> Result<(), Refused> {
        if !is_of_peer(who.asker.session) {
            return self.check_right(who.asker.session, Right::Acquire, name, owner);
        }
        let subject = peer_subject(who.uid);
        let decision = self.parts.config.rules.decide(&subject, Right::Acquire, name, owner);
        if decision.is_allowed() {
            return Ok(());
        }
        let right = Right::Acquire.to_string();
        self.denials.note(who.uid, &right, &name.to_string(), decision);
        Err(Code::Denied.into())
    }
}
