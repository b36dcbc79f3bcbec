//! What the node's thread keeps of a joined peer: what waits for room on the way to it.

use std::collections::VecDeque;

use heliostat_abi::cluster::Class;
use heliostat_backend_transport::AskId;

use crate::limits::QUEUED_ANSWER_BYTES_MAX;
use crate::outgoing::Outgoing;
use crate::quality::lanes::Lanes;
use crate::quality::Quality;
use crate::service::PeerNode;

/// A joined peer.
pub(crate) struct Peer {
    pub(crate) who: PeerNode,
    /// Calls that wait for room in its window, or for their class's share of it.
    pub(crate) calls: Lanes<Outgoing>,
    /// Answers that wait for room in its window.
    pub(crate) answers: VecDeque<Answered>,
    answers_bytes: usize,
    /// Requests that wait for their turn, by class, and until the answers before them are sent, or until
    /// it is admitted. The window that they came through limits them: what is kept of them here is not
    /// released there.
    requests: [VecDeque<Asked>; 3],
    /// Whether a registry names it, where one decides.
    pub(crate) is_admitted: bool,
}

/// An answer that waits.
pub(crate) struct Answered {
    pub(crate) ask: AskId,
    /// None for a refusal.
    pub(crate) reply: Option<(Vec<u8>, Vec<u8>)>,
}

/// A request that waits.
pub(crate) struct Asked {
    pub(crate) ask: AskId,
    pub(crate) header: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) deadline_ns: u64,
}

impl Peer {
    pub(crate) fn new(who: PeerNode, quality: &Quality) -> Peer {
        Peer {
            who,
            calls: Lanes::new(quality),
            answers: VecDeque::new(),
            answers_bytes: 0,
            requests: [(); 3].map(|()| VecDeque::new()),
            is_admitted: false,
        }
    }

    /// Keeps a request until its turn; whether it is the first of its class.
    pub(crate) fn queue_request(&mut self, class: Class, asked: Asked) -> bool {
        let its = &mut self.requests[class.place()];
        its.push_back(asked);
        its.len() == 1
    }

    /// The first request of a class, unless answers wait to be sent before it.
    pub(crate) fn next_request(&mut self, class: Class) -> Option<Asked> {
        self.answers.is_empty().then(|| self.requests[class.place()].pop_front()).flatten()
    }

    /// Whether a request of a class waits for nothing but its turn.
    pub(crate) fn has_request(&self, class: Class) -> bool {
        self.answers.is_empty() && !self.requests[class.place()].is_empty()
    }

    /// Keeps an answer until there is room. Where too much waits it becomes a refusal, which is small,
    /// and whose number the peer's own window limits.
    pub(crate) fn queue_answer(&mut self, mut answer: Answered) {
        if self.answers_bytes + answer.bytes() > QUEUED_ANSWER_BYTES_MAX {
            answer.reply = None;
        }
        self.answers_bytes += answer.bytes();
        self.answers.push_back(answer);
    }

    /// The first answer that waits.
    pub(crate) fn next_answer(&mut self) -> Option<Answered> {
        let answer = self.answers.pop_front()?;
        self.answers_bytes -= answer.bytes();
        Some(answer)
    }

    /// Puts an answer back that there was no room for.
    pub(crate) fn requeue_answer(&mut self, answer: Answered) {
        self.answers_bytes += answer.bytes();
        self.answers.push_front(answer);
    }
}

impl Answered {
    fn bytes(&self) -> usize {
        self.reply.as_ref().map_or(0, |(header, payload)| header.len() + payload.len())
    }
}
