//! Messages to other nodes about locks: one line for each link, in order, with so many on the way.
//!
//! ```text
//! asks, ends --> line of the link --> on the way (64 at most) --> answer
//! news of tickets there --> one message on the way at a time, with all that came meanwhile
//! ```
//! So what this node asks of another one takes 65 of the calls that it may have there, however many
//! sessions ask, and no call lasts as long as a wait for a lock.

use heliostat_abi::lock::limits::{EVENTS_PER_REPLY_MAX, NEWS_MAX};
use heliostat_abi::lock::peer::{PeerLock, PeerNews};
use heliostat_abi::lock::request::SERVICE;
use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{NodeCall, PeerNode};
use tracing::debug;

use crate::daemon::Daemon;
use crate::state::lock::across::LockMessage;

/// How long an answer may take that brings something which then has to be given back. The link ends
/// before, with all that was granted by it, where the node is hung or cut off.
const CALL_NS: u64 = 60_000_000_000;

impl Daemon {
    /// Sends something to a node, behind all that was sent before.
    pub(super) fn post_lock(&mut self, peer: PeerNode, message: LockMessage) {
        // What was granted by a link that is lost needs no word.
        if self.joined_node(peer.node.0).is_none_or(|joined| joined.link != peer.link) {
            return;
        }
        self.services.lock.across.outbox(peer).queue.push_back(message);
        self.send_lock_messages(peer);
    }

    /// Sends what waits for its turn, as much as may be on the way.
    pub(super) fn send_lock_messages(&mut self, peer: PeerNode) {
        loop {
            let across = &mut self.services.lock.across;
            let Some((_, outbox)) = across.outboxes.get_mut(&peer.link.0) else { return };
            if !outbox.has_room() {
                return;
            }
            let Some(message) = outbox.queue.pop_front() else { return };
            let asked = match &message {
                LockMessage::Ask { session, user, process, request, .. } => PeerLock::Ask {
                    user: *user,
                    process: *process,
                    session: *session,
                    request: request.clone(),
                },
                LockMessage::End(session) => PeerLock::End { session: *session },
            };
            let token = self.call_lock_node(peer, &asked);
            let outbox = self.services.lock.across.outbox(peer);
            match token {
                Some(token) => drop(outbox.on_the_way.insert(token, message)),
                None => {
                    outbox.queue.push_front(message);
                    outbox.retry(monotonic_ns());
                }
            }
        }
    }

    fn call_lock_node(&mut self, peer: PeerNode, asked: &PeerLock) -> Option<u64> {
        let (header, payload) = asked.encode();
        let call = NodeCall {
            node: peer.node,
            link: Some(peer.link),
            service: SERVICE,
            header: header.to_vec(),
            payload,
            deadline_ns: monotonic_ns().saturating_add(CALL_NS),
        };
        let token = self.services.lock.across.token(peer.link.0);
        let called = self.call_node(token, call).map_err(|error| {
            debug!(%error, "another node is not asked now");
            self.services.lock.across.end_token(token);
        });
        called.ok().map(|()| token)
    }

    /// Sessions of other nodes have news.
    pub(super) fn tell_foreign(&mut self, sessions: Vec<ObjectId>) {
        let mut told = Vec::new();
        for session in sessions {
            let across = &mut self.services.lock.across;
            let Some(who) = across.foreign.get(session).copied() else { continue };
            let Some(peer) = self.joined_node(who.node).filter(|it| it.link.0 == who.link) else {
                continue;
            };
            let outbox = self.services.lock.across.outbox(peer);
            if !outbox.to_tell.contains(&session) {
                outbox.to_tell.push_back(session);
            }
            if !told.contains(&peer) {
                told.push(peer);
            }
        }
        told.into_iter().for_each(|peer| self.send_lock_news(peer));
    }

    /// Sends a node the news of its sessions, unless some are on the way.
    pub(super) fn send_lock_news(&mut self, peer: PeerNode) {
        let across = &mut self.services.lock.across;
        let Some((_, outbox)) = across.outboxes.get_mut(&peer.link.0) else { return };
        let news = match outbox.news.take() {
            Some((Some(token), news)) => {
                outbox.news = Some((Some(token), news));
                return;
            }
            Some((None, news)) => news,
            None => self.take_lock_news(peer),
        };
        if news.is_empty() {
            return;
        }
        let token = self.call_lock_node(peer, &PeerLock::News(news.clone()));
        let outbox = self.services.lock.across.outbox(peer);
        outbox.news = Some((token, news));
        if token.is_none() {
            outbox.retry(monotonic_ns());
        }
    }

    /// News of a node's sessions, in turn. They count as told from here on: the link carries them, or is
    /// lost with all that they tell of.
    fn take_lock_news(&mut self, peer: PeerNode) -> Vec<PeerNews> {
        let mut news = Vec::new();
        while news.len() + EVENTS_PER_REPLY_MAX <= NEWS_MAX {
            let Some(session) = self.services.lock.across.outbox(peer).to_tell.pop_front() else {
                break;
            };
            let lock = &mut self.services.lock;
            let Some(who) = lock.across.foreign.get(session).copied() else { continue };
            let Ok((events, more)) = lock.grants.next(session) else { continue };
            lock.across.foreign.note(session, lock.grants.count_of(session));
            let of_session = |event| PeerNews { session: who.session, event };
            news.extend(events.into_iter().map(of_session));
            if more {
                lock.across.outbox(peer).to_tell.push_back(session);
            }
        }
        news
    }

    /// Sends again what found no room.
    pub(super) fn send_lock_again(&mut self, now_ns: u64) {
        for peer in self.services.lock.across.take_due(now_ns) {
            self.send_lock_messages(peer);
            self.send_lock_news(peer);
        }
    }
}
