//! What peers ask: served in order, and not before the answers to what they asked before are sent.
//!
//! A peer that asks for much and takes no answers keeps its own requests waiting, which its window
//! limits, and nobody else's.

use heliostat_backend_transport::node::{Node, ReplyFailure};
use heliostat_backend_transport::transport::{LinkId, Transport};
use heliostat_backend_transport::AskId;

use super::fence::is_free;
use super::Work;
use crate::event::NodesEvent;
use crate::header;
use crate::peer::{Answered, Asked};
use crate::service::{Asker, Served};

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
        let is_first = peer.answers.is_empty() && peer.requests.is_empty();
        // What comes before both are members waits, but for what makes them so.
        let is_open = self.is_open(link);
        if is_first && is_open || !is_open && is_free(&asked.header) {
            self.serve(node, now_ns, link, asked);
        } else if let Some(peer) = self.peers.get_mut(&link) {
            peer.requests.push_back(asked);
        }
    }

    /// Goes on with a peer that has room again.
    pub(super) fn resume<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, link: LinkId) {
        while let Some(answer) = self.peers.get_mut(&link).and_then(|peer| peer.next_answer()) {
            if !self.answer(node, now_ns, link, answer) {
                break;
            }
        }
        while let Some(asked) = self.next_request(link) {
            self.serve(node, now_ns, link, asked);
        }
        self.send_waiting(node, now_ns, link);
    }

    fn next_request(&mut self, link: LinkId) -> Option<Asked> {
        if !self.is_open(link) {
            return None;
        }
        let peer = self.peers.get_mut(&link)?;
        if peer.answers.is_empty() {
            peer.requests.pop_front()
        } else {
            None
        }
    }

    fn serve<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, link: LinkId, asked: Asked) {
        let Some(peer) = self.peers.get(&link).map(|peer| peer.who) else { return };
        let Asked { ask, header, payload, deadline_ns } = asked;
        let reply = match header::decode(&header) {
            None => None,
            Some((header::ECHO, rest)) => Some((rest.to_vec(), payload)),
            Some((number, rest)) => {
                let from = Asker { peer, ask, deadline_ns };
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
