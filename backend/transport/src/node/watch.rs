//! What time brings: signs of life, silence, deadlines; and the end of peers and their calls.

use super::peer::Stage;
use super::{Node, NodeEvent, ALIVE, NO_CALL};
use crate::calls::Waiting;
use crate::error::{CallError, CallFailure, Effect, JoinFailure, LostCause};
use crate::frame::{CallId, FrameKind};
use crate::transport::{LinkId, Transport};

/// What is due at a peer.
enum Due {
    Nothing { until_ns: u64 },
    JoinFails,
    Silence { ns: u64 },
    Heartbeat,
}

impl<T: Transport> Node<T> {
    /// Ends the calls whose time is over.
    pub(super) fn expire_calls(&mut self, now_ns: u64) {
        while let Some((call, waiting)) = self.calls.expire(now_ns) {
            self.give_up(now_ns, call, waiting, CallFailure::Deadline);
        }
    }

    /// Tells the program that a call has no answer, and the other side that none is wanted.
    pub(super) fn give_up(
        &mut self,
        now_ns: u64,
        call: CallId,
        waiting: Waiting,
        why: CallFailure,
    ) {
        let effect = if waiting.is_unsent { Effect::NotSent } else { Effect::Unknown };
        let error = CallError { node: Some(waiting.node), effect, why };
        self.events.push(NodeEvent::Failed { call, error });
        if !waiting.is_post {
            // A courtesy: where there is no room for it, the other side answers in vain.
            let _ = self.say(
                now_ns,
                waiting.link,
                FrameKind::Withdraw { call },
                &[],
                Vec::new(),
                NO_CALL,
            );
        }
    }

    /// Looks at each peer, and remembers when to look again.
    pub(super) fn check_peers(&mut self, now_ns: u64) {
        self.check_ns = u64::MAX;
        let links: Vec<LinkId> = self.peers.keys().copied().collect();
        for link in links {
            self.check_peer(now_ns, link);
        }
    }

    fn check_peer(&mut self, now_ns: u64, link: LinkId) {
        match self.due(now_ns, link) {
            Due::Nothing { until_ns } => self.check_ns = self.check_ns.min(until_ns),
            Due::JoinFails => {
                self.transport.close(now_ns, link, 0);
                self.fail_join(link, JoinFailure::Deadline);
            }
            Due::Silence { ns } => self.end_peer(now_ns, link, LostCause::Silent { ns }, 0),
            Due::Heartbeat => {
                self.say_alive(now_ns, link);
                self.check_ns = self.check_ns.min(now_ns.saturating_add(self.limits.heartbeat_ns));
            }
        }
    }

    fn due(&self, now_ns: u64, link: LinkId) -> Due {
        let Some(peer) = self.peers.get(&link) else { return Due::Nothing { until_ns: u64::MAX } };
        if matches!(peer.stage, Stage::Shaking(_)) {
            let until_ns = peer.deadline_ns;
            return if now_ns >= until_ns { Due::JoinFails } else { Due::Nothing { until_ns } };
        }
        let silent_ns = now_ns.saturating_sub(peer.heard_ns);
        let silence_at_ns = peer.heard_ns.saturating_add(self.limits.silence_ns_max);
        let heartbeat_at_ns = peer.said_ns.saturating_add(self.limits.heartbeat_ns);
        if now_ns >= silence_at_ns {
            Due::Silence { ns: silent_ns }
        } else if now_ns >= heartbeat_at_ns {
            Due::Heartbeat
        } else {
            Due::Nothing { until_ns: silence_at_ns.min(heartbeat_at_ns) }
        }
    }

    /// Sends a sign of life, which carries credit, unless one waits in the transport.
    fn say_alive(&mut self, now_ns: u64, link: LinkId) {
        let Some(peer) = self.peers.get_mut(&link) else { return };
        peer.said_ns = now_ns;
        if peer.is_alive_queued {
            return;
        }
        let is_taken = self.say(now_ns, link, FrameKind::Alive, &[], Vec::new(), ALIVE).is_ok();
        if let Some(peer) = self.peers.get_mut(&link) {
            peer.is_alive_queued = is_taken;
            self.counters.heartbeats += u64::from(is_taken);
        }
    }

    /// The sign of life is out; credit that came up meanwhile goes with another.
    pub(super) fn sent_alive(&mut self, now_ns: u64, link: LinkId) {
        if let Some(peer) = self.peers.get_mut(&link) {
            peer.is_alive_queued = false;
        }
        self.tell(now_ns, link);
    }

    /// Tells a peer its credit, if it may wait for that.
    pub(super) fn tell(&mut self, now_ns: u64, link: LinkId) {
        if self.joined_mut(link).is_some_and(|joined| joined.must_tell()) {
            self.say_alive(now_ns, link);
        }
    }

    /// Ends a link in any stage: its calls fail, its asks are void, and whoever is above is told.
    pub(super) fn end_peer(&mut self, now_ns: u64, link: LinkId, why: LostCause, linger_ns: u64) {
        let Some(peer) = self.peers.get(&link) else { return };
        self.transport.close(now_ns, link, linger_ns);
        let Stage::Joined(joined) = &peer.stage else {
            let failure = match why {
                LostCause::Ended(end) => JoinFailure::Ended(end),
                _ => JoinFailure::Withdrawn,
            };
            self.fail_join(link, failure);
            return;
        };
        let node = joined.theirs.node;
        self.peers.remove(&link);
        if self.by_node.get(&node) == Some(&link) {
            self.by_node.remove(&node);
        }
        self.asks.end_link(link);
        for call in self.calls.of_link(link) {
            if let Some(waiting) = self.calls.end(call) {
                self.give_up(now_ns, call, waiting, CallFailure::Lost(why));
            }
        }
        self.events.push(NodeEvent::Lost { link, node, why });
    }
}
