//! Calls and posts that wait for their end, and when each has to have one.

use std::collections::BTreeSet;

use crate::frame::CallId;
use crate::identity::NodeId;
use crate::slots::Slots;
use crate::transport::{LinkId, SendToken};

/// One that waits. The transport has taken it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// The link that it was sent on.
    pub link: LinkId,
    /// The node behind it.
    pub node: NodeId,
    /// Whether it ends when it is sent, since no answer comes.
    pub is_post: bool,
    /// When it ends by itself.
    pub deadline_ns: u64,
    /// Whether the transport says that the peer cannot have it.
    pub is_unsent: bool,
}

/// All of them.
#[derive(Debug)]
pub struct Calls {
    waiting: Slots<Waiting>,
    deadlines: BTreeSet<(u64, CallId)>,
}

impl Calls {
    /// No calls, and at most `limit` at once.
    pub fn new(limit: usize) -> Calls {
        Calls { waiting: Slots::new(limit), deadlines: BTreeSet::new() }
    }

    /// Numbers begin with this generation.
    pub fn begin_with(&mut self, first: u32) {
        self.waiting.begin_with(first);
    }

    /// Gives a call its number, unless as many wait as may.
    pub fn begin(&mut self, call: Waiting) -> Option<CallId> {
        let id = self.waiting.insert(call)?;
        self.deadlines.insert((call.deadline_ns, id));
        Some(id)
    }

    /// Ends a call: its number is void, whatever comes for it later is ignored.
    pub fn end(&mut self, id: CallId) -> Option<Waiting> {
        let call = self.waiting.remove(id)?;
        self.deadlines.remove(&(call.deadline_ns, id));
        Some(call)
    }

    /// Ends a call that an answer came for, if it was made on this link and waits for one.
    pub fn answer(&mut self, id: CallId, link: LinkId) -> Option<Waiting> {
        self.waiting.find(id).filter(|call| call.link == link && !call.is_post)?;
        self.end(id)
    }

    /// Ends a post that is sent; a call goes on waiting.
    pub fn sent(&mut self, id: CallId) -> Option<Waiting> {
        self.waiting.find(id).filter(|call| call.is_post)?;
        self.end(id)
    }

    /// Remembers that the peer cannot have it; the end of the link follows.
    pub fn unsent(&mut self, id: CallId) {
        if let Some(call) = self.waiting.find_mut(id) {
            call.is_unsent = true;
        }
    }

    /// Ends and returns the first call whose time is over.
    pub fn expire(&mut self, now_ns: u64) -> Option<(CallId, Waiting)> {
        let &(deadline_ns, id) = self.deadlines.first()?;
        if deadline_ns > now_ns {
            return None;
        }
        Some(id).zip(self.end(id))
    }

    /// When the next call's time is over.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline_ns, _)| *deadline_ns)
    }

    /// The calls of one link.
    pub fn of_link(&self, link: LinkId) -> Vec<CallId> {
        self.waiting.matching(|call| call.link == link)
    }

    /// How many wait.
    pub fn used(&self) -> usize {
        self.waiting.used()
    }

    /// How many may wait.
    pub fn limit(&self) -> usize {
        self.waiting.limit()
    }
}

impl CallId {
    /// The call's number as a transport sees it. The two largest indices are no call's, since the
    /// tables are shorter, and name messages that belong to none.
    pub(crate) fn token(self) -> SendToken {
        SendToken(u64::from(self.generation) << 32 | u64::from(self.index))
    }

    /// The call that a token names.
    pub(crate) fn of_token(token: SendToken) -> CallId {
        CallId { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Waiting = Waiting {
        link: LinkId(1),
        node: NodeId(2),
        is_post: false,
        deadline_ns: 50,
        is_unsent: false,
    };

    #[test]
    fn an_answer_counts_once_and_only_from_the_link_that_was_asked() {
        let mut calls = Calls::new(8);
        let id = calls.begin(CALL).expect("room");
        assert_eq!(calls.answer(id, LinkId(2)), None);
        assert_eq!(calls.answer(id, LinkId(1)), Some(CALL));
        assert_eq!(calls.answer(id, LinkId(1)), None);
        assert_eq!(calls.deadline_ns(), None);
    }

    #[test]
    fn calls_expire_in_the_order_of_their_deadlines() {
        let mut calls = Calls::new(8);
        let late = calls.begin(CALL).expect("room");
        let early = calls.begin(Waiting { deadline_ns: 20, ..CALL }).expect("room");
        assert_eq!(calls.expire(19), None);
        assert_eq!(calls.expire(60).map(|(id, _)| id), Some(early));
        assert_eq!(calls.expire(60).map(|(id, _)| id), Some(late));
        assert_eq!(calls.expire(60), None);
    }

    #[test]
    fn a_post_ends_when_it_is_sent_and_a_call_does_not() {
        let mut calls = Calls::new(8);
        let call = calls.begin(CALL).expect("room");
        let post = calls.begin(Waiting { is_post: true, ..CALL }).expect("room");
        assert_eq!(calls.sent(call), None);
        assert!(calls.sent(post).is_some());
        assert_eq!(calls.answer(post, LinkId(1)), None);
        assert_eq!(calls.used(), 1);
    }

    #[test]
    fn a_token_names_its_call() {
        let id = CallId { index: 9, generation: u32::MAX };
        assert_eq!(CallId::of_token(id.token()), id);
    }
}
