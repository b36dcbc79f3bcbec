//! What peers ask: served in turns, and not before the answers to what they asked before are sent.
//!
//! Requests of one peer and one class are served in their order. Between them each peer has its turn,
//! the most urgent class first, and after a short time the network has its own. A peer that asks for
//! much and takes no answers keeps its own requests waiting, which its window limits, and nobody else's.

use heliostat_backend_transport::node::{Node, ReplyFailure};
use heliostat_backend_transport::transport::{LinkId, Transport};
use heliostat_backend_transport::AskId;
use heliostat_base::clock::monotonic_ns;

use heliostat_abi::cluster::Class;

use super::fence::is_free;
use super::Work;
use crate::event::NodesEvent;
use crate::header;
use crate::peer::{Answered, Asked};
use crate::service::{Asker, Served};

/// How long requests are served before the network has its turn: what a part of an operation takes, a
/// few times, so that something urgent that comes meanwhile is soon seen.
const SERVE_NS_MAX: u64 = 500_000;

impl Work {
    /// Takes a request. Posts have no meaning between services.
    pub(super) fn take<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        link: LinkId,
        asked: Asked,
        wants_reply: bool,
    ) {
        let Some(peer) = self.peers.get(&link).filter(|_| wants_reply) else {
            node.release(now_ns, asked.ask);
            return;
        };
        let (said, from) = (header::class_of(&asked.header), peer.who.node);
        let (class, is_open) = (self.class_of(from, said), self.is_open(link));
        // What comes before both are members waits, but for what makes them so.
        if !is_open && is_free(&asked.header) {
            return self.serve(node, now_ns, link, asked);
        }
        let Some(peer) = self.peers.get_mut(&link) else { return };
        // Where answers wait, or it is no member yet, it has its turn after that.
        if peer.queue_request(class, asked) && peer.answers.is_empty() && is_open {
            self.turns.wait(class, link);
        }
    }

    /// Serves requests whose turn it is, for a short time; whether there are more.
    pub(super) fn serve_turns<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64) -> bool {
        if self.turns.is_empty() {
            return false;
        }
        let begun_ns = monotonic_ns();
        while let Some((class, link)) = self.turns.next() {
            // One that is no member, or no more, has its turns again when it is.
            if !self.is_open(link) {
                continue;
            }
            let asked = self.peers.get_mut(&link).and_then(|peer| peer.next_request(class));
            if let Some(asked) = asked {
                self.serve(node, now_ns, link, asked);
                self.is_changed = true;
                let peer = self.peers.get_mut(&link);
                peer.into_iter().for_each(|peer| peer.calls.served(class));
            }
            if self.peers.get(&link).is_some_and(|peer| peer.has_request(class)) {
                self.turns.wait(class, link);
            }
            if monotonic_ns().saturating_sub(begun_ns) >= SERVE_NS_MAX {
                break;
            }
        }
        !self.turns.is_empty()
    }

    /// Goes on with a peer that has room again.
    pub(super) fn resume<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, link: LinkId) {
        while let Some(answer) = self.peers.get_mut(&link).and_then(|peer| peer.next_answer()) {
            if !self.answer(node, now_ns, link, answer) {
                break;
            }
        }
        // Those that waited for the answers, or until it is a member, have their turns again.
        self.turns.forget(link);
        let is_open = self.is_open(link);
        for class in Class::ALL.into_iter().filter(|_| is_open) {
            if self.peers.get(&link).is_some_and(|peer| peer.has_request(class)) {
                self.turns.wait(class, link);
            }
        }
        self.send_waiting(node, now_ns, link);
    }

    fn serve<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, link: LinkId, asked: Asked) {
        let Some(peer) = self.peers.get(&link).map(|peer| peer.who) else { return };
        let Asked { ask, header, payload, deadline_ns } = asked;
        let reply = match header::decode(&header) {
            None => None,
            Some((header::ECHO, rest)) => Some((rest.to_vec(), payload)),
            Some((number, rest)) => {
                let class = self.class_of(peer.node, header::class_of(&header));
                let from = Asker { peer, ask, deadline_ns, class };
                let service = self.hosted.get_mut(&number);
                match service.map_or(Served::Forward, |it| it.request(from, rest, &payload)) {
                    Served::Reply { header, payload } => Some((header, payload)),
                    Served::Refuse => None,
                    Served::Later => return,
                    Served::Forward => {
                        let (service, header) = (number, rest.to_vec());
                        let request = NodesEvent::Request {
                            ask,
                            peer,
                            service,
                            header,
                            payload,
                            deadline_ns,
                            class,
                        };
                        return self.events.send(request);
                    }
                }
            }
        };
        self.answer(node, now_ns, link, Answered { ask, reply });
    }

    /// Answers a request on behalf of another thread.
    pub(super) fn reply<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        ask: AskId,
        reply: Option<(Vec<u8>, Vec<u8>)>,
    ) {
        // Whose ask it was is gone with the peer.
        let Some(link) = node.asker(ask) else { return };
        let answer = Answered { ask, reply };
        match self.peers.get_mut(&link).filter(|peer| !peer.answers.is_empty()) {
            Some(peer) => peer.queue_answer(answer),
            None => {
                self.answer(node, now_ns, link, answer);
            }
        }
    }

    /// Sends an answer; whether that is done with. One that there is no room for waits, in front.
    fn answer<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        link: LinkId,
        answer: Answered,
    ) -> bool {
        let Answered { ask, reply } = answer;
        let is_refusal = reply.is_none();
        let (header, payload) = reply.unwrap_or_default();
        let result = if is_refusal {
            node.refuse(now_ns, ask)
        } else {
            node.reply(now_ns, ask, &header, payload)
        };
        let Err(unsent) = result else { return true };
        match unsent.why {
            ReplyFailure::NoAsk | ReplyFailure::Post => true,
            ReplyFailure::TooLong { .. } => {
                self.answer(node, now_ns, link, Answered { ask, reply: None })
            }
            ReplyFailure::Full => {
                let reply = (!is_refusal).then_some((header, unsent.payload));
                let answer = Answered { ask, reply };
                if let Some(peer) = self.peers.get_mut(&link) {
                    peer.requeue_answer(answer);
                }
                false
            }
        }
    }
}
