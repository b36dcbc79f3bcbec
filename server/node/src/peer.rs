//! What the node's thread keeps of a joined peer: what waits for room on the way to it.

use std::collections::VecDeque;

use heliostat_backend_transport::AskId;

use crate::limits::{QUEUED_ANSWER_BYTES_MAX, QUEUED_BYTES_MAX, QUEUED_CALLS_MAX};
use crate::outgoing::Outgoing;
use crate::service::PeerNode;

/// A joined peer.
pub(crate) struct Peer {
    pub(crate) who: PeerNode,
    /// Calls that wait for room in its window.
    pub(crate) calls: VecDeque<Outgoing>,
    calls_bytes: usize,
    /// Answers that wait for room in its window.
    pub(crate) answers: VecDeque<Answered>,
    answers_bytes: usize,
    /// Requests that wait until the answers before them are sent, or until it is admitted. The window that they came through
    /// limits them: what is kept of them here is not released there.
    pub(crate) requests: VecDeque<Asked>,
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
    pub(crate) fn new(who: PeerNode) -> Peer {
        Peer {
            who,
            calls: VecDeque::new(),
            calls_bytes: 0,
            answers: VecDeque::new(),
            answers_bytes: 0,
            requests: VecDeque::new(),
            is_admitted: false,
        }
    }

    /// Keeps a call until there is room. Where as much waits as may it comes back.
    pub(crate) fn queue_call(&mut self, call: Outgoing) -> Option<Outgoing> {
        let bytes = self.calls_bytes + call.bytes();
        if self.calls.len() >= QUEUED_CALLS_MAX || bytes > QUEUED_BYTES_MAX {
            return Some(call);
        }
        self.calls_bytes = bytes;
        self.calls.push_back(call);
        None
    }

    /// The first call that waits.
    pub(crate) fn next_call(&mut self) -> Option<Outgoing> {
        let call = self.calls.pop_front()?;
        self.calls_bytes -= call.bytes();
        Some(call)
    }

    /// Puts a call back that there was no room for.
    pub(crate) fn requeue_call(&mut self, call: Outgoing) {
        self.calls_bytes += call.bytes();
        self.calls.push_front(call);
    }

    /// Takes the calls out whose time is over.
    pub(crate) fn expired(&mut self, now_ns: u64) -> Vec<Outgoing> {
        let all = std::mem::take(&mut self.calls);
        let (late, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|call| call.deadline_ns <= now_ns);
        self.calls = rest.into();
        self.calls_bytes = self.calls.iter().map(Outgoing::bytes).sum();
        late
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
