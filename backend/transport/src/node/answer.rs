//! Answers to what peers ask, and the credit that an answered ask gives back.

use super::peer::Want;
use super::{Node, NO_CALL};
use crate::asks::{AskId, Open};
use crate::frame::{CallId, FrameKind};
use crate::limits::{HEADER_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::transport::{LinkId, Transport};
use crate::window::cost;

/// An answer that was not sent, with its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotReplied {
    /// Why.
    pub why: ReplyFailure,
    /// What was to be sent.
    pub payload: Vec<u8>,
}

/// Why an answer was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyFailure {
    /// The ask is finished, or who asked is lost.
    NoAsk,
    /// It is a post, which is released and not answered.
    Post,
    /// The window for answers has no room now; the ask stays open, and `Room` follows.
    Full,
    /// No message may be so long; the ask stays open.
    TooLong {
        /// Bytes of header and payload.
        found: usize,
    },
}

impl<T: Transport> Node<T> {
    /// Answers an ask. What becomes of the answer is the asker's matter.
    pub fn reply(
        &mut self,
        now_ns: u64,
        ask: AskId,
        header: &[u8],
        payload: Vec<u8>,
    ) -> Result<(), NotReplied> {
        self.finish(now_ns, ask, header, payload, false)
    }

    /// Says that nothing was done, and will not be.
    pub fn refuse(&mut self, now_ns: u64, ask: AskId) -> Result<(), NotReplied> {
        self.finish(now_ns, ask, &[], Vec::new(), true)
    }

    /// Finishes a post, or an ask without an answer: then its caller waits for its deadline.
    pub fn release(&mut self, now_ns: u64, ask: AskId) -> bool {
        match self.asks.end(ask) {
            Some(Open { link, cost, .. }) => {
                self.give_back(now_ns, link, cost);
                true
            }
            None => false,
        }
    }

    /// The link that an ask came on, while it is open.
    pub fn asker(&self, ask: AskId) -> Option<LinkId> {
        self.asks.find(ask).map(|open| open.link)
    }

    fn finish(
        &mut self,
        now_ns: u64,
        ask: AskId,
        header: &[u8],
        payload: Vec<u8>,
        is_refusal: bool,
    ) -> Result<(), NotReplied> {
        let (open, call) = match self.admits_reply(ask, header.len(), payload.len()) {
            Ok(found) => found,
            Err(why) => return Err(NotReplied { why, payload }),
        };
        let kind = FrameKind::Reply { call, is_refusal };
        let cost = cost(header.len(), payload.len());
        if let Err((_, payload)) = self.say(now_ns, open.link, kind, header, payload, NO_CALL) {
            self.want(open.link, Want::Queue);
            return Err(NotReplied { why: ReplyFailure::Full, payload });
        }
        if let Some(joined) = self.joined_mut(open.link) {
            joined.replies_out.send(cost);
        }
        self.release(now_ns, ask);
        Ok(())
    }

    /// Whether the ask can be answered now, and which call of whom it is.
    fn admits_reply(
        &mut self,
        ask: AskId,
        header_bytes: usize,
        payload_bytes: usize,
    ) -> Result<(Open, CallId), ReplyFailure> {
        let open = *self.asks.find(ask).ok_or(ReplyFailure::NoAsk)?;
        let call = open.call.ok_or(ReplyFailure::Post)?;
        let joined = self.joined_mut(open.link).ok_or(ReplyFailure::NoAsk)?;
        let cost = cost(header_bytes, payload_bytes);
        let is_short = header_bytes <= HEADER_BYTES_MAX && payload_bytes <= PAYLOAD_BYTES_MAX;
        if !is_short || !joined.replies_out.can_ever(cost) {
            return Err(ReplyFailure::TooLong { found: header_bytes + payload_bytes });
        }
        if !joined.replies_out.has_room(cost) {
            self.want(open.link, Want::Window);
            return Err(ReplyFailure::Full);
        }
        Ok((open, call))
    }

    fn give_back(&mut self, now_ns: u64, link: LinkId, cost: u64) {
        if let Some(joined) = self.joined_mut(link) {
            joined.requests_in.release(cost);
        }
        self.tell(now_ns, link);
    }
}
