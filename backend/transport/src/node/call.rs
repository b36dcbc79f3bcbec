//! Calls and posts: whether they may be made now, and how they are taken back.

use super::peer::Want;
use super::Node;
use crate::calls::Waiting;
use crate::error::{CallError, CallFailure, Effect};
use crate::frame::{CallId, FrameKind};
use crate::identity::NodeId;
use crate::limits::{HEADER_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::transport::{LinkId, Transport};
use crate::window::cost;

/// A call or post that was not made, with its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotCalled {
    /// Why.
    pub error: CallError,
    /// What was to be sent.
    pub payload: Vec<u8>,
}

impl<T: Transport> Node<T> {
    /// Asks the node behind `link`. Exactly one of `Answered` and `Failed` follows, by `deadline_ns`
    /// at the latest. Unless the call fails with [`CallFailure::NoPeer`] or
    /// [`CallFailure::TooLong`], it may be tried again later.
    pub fn call(
        &mut self,
        now_ns: u64,
        link: LinkId,
        header: &[u8],
        payload: Vec<u8>,
        deadline_ns: u64,
    ) -> Result<CallId, NotCalled> {
        self.begin(now_ns, link, header, payload, deadline_ns, false)
    }

    /// Sends a message that has no answer. Exactly one of `Posted` and `Failed` follows.
    pub fn post(
        &mut self,
        now_ns: u64,
        link: LinkId,
        header: &[u8],
        payload: Vec<u8>,
        deadline_ns: u64,
    ) -> Result<CallId, NotCalled> {
        self.begin(now_ns, link, header, payload, deadline_ns, true)
    }

    fn begin(
        &mut self,
        now_ns: u64,
        link: LinkId,
        header: &[u8],
        payload: Vec<u8>,
        deadline_ns: u64,
        is_post: bool,
    ) -> Result<CallId, NotCalled> {
        let cost = cost(header.len(), payload.len());
        let node = match self.admits_call(now_ns, link, header.len(), payload.len(), deadline_ns) {
            Ok(node) => node,
            Err(error) => return Err(NotCalled { error, payload }),
        };
        let not_sent = |why| CallError { node: Some(node), effect: Effect::NotSent, why };
        let waiting = Waiting { link, node, is_post, deadline_ns, is_unsent: false };
        let Some(call) = self.calls.begin(waiting) else {
            let why = CallFailure::TooMany { limit: self.calls.limit() };
            return Err(NotCalled { error: not_sent(why), payload });
        };
        let left_ns = deadline_ns - now_ns;
        let kind = if is_post { FrameKind::Post } else { FrameKind::Request { call, left_ns } };
        if let Err((_, payload)) = self.say(now_ns, link, kind, header, payload, call.token()) {
            self.calls.end(call);
            self.want(link, Want::Queue);
            return Err(NotCalled { error: not_sent(CallFailure::Full), payload });
        }
        if let Some(joined) = self.joined_mut(link) {
            joined.requests_out.send(cost);
        }
        Ok(call)
    }

    /// Whether a call can be made now, and to whom.
    fn admits_call(
        &mut self,
        now_ns: u64,
        link: LinkId,
        header_bytes: usize,
        payload_bytes: usize,
        deadline_ns: u64,
    ) -> Result<NodeId, CallError> {
        let not_sent = |node, why| Err(CallError { node, effect: Effect::NotSent, why });
        let Some(joined) = self.joined_mut(link) else {
            return not_sent(None, CallFailure::NoPeer);
        };
        let node = joined.theirs.node;
        let cost = cost(header_bytes, payload_bytes);
        let is_short = header_bytes <= HEADER_BYTES_MAX && payload_bytes <= PAYLOAD_BYTES_MAX;
        if !is_short || !joined.requests_out.can_ever(cost) {
            let found = header_bytes + payload_bytes;
            return not_sent(Some(node), CallFailure::TooLong { found });
        }
        if deadline_ns <= now_ns {
            return not_sent(Some(node), CallFailure::Deadline);
        }
        if !joined.requests_out.has_room(cost) {
            self.want(link, Want::Window);
            return not_sent(Some(node), CallFailure::Full);
        }
        Ok(node)
    }

    /// Ends a call whose answer is not wanted any more; whether it was still waiting. `Failed`
    /// follows, and the other side is told.
    pub fn withdraw(&mut self, now_ns: u64, call: CallId) -> bool {
        let Some(waiting) = self.calls.end(call) else { return false };
        self.give_up(now_ns, call, waiting, CallFailure::Withdrawn);
        true
    }
}
