//! A function that this process serves.

use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::file::delegated::{OpKind, Operation, Piece};
use heliostat_abi::rpc::operation::{NOBODY_WAITED, REPLY_FAILED};
use heliostat_abi::rpc::{CallHead, FunctionInfo, HEAD_BYTES};

use super::function::{check, put};
use super::link::{operation, timeout_us, Link};
use super::received::Call;
use super::slots::Slot;
use super::uses::Use;
use super::{FunctionId, NotDelivered, RpcError, Shared};

/// Longest reply that goes along with the next receive: a longer one is carried by turns of its own,
/// which the receive's time must not cut short.
const ALONG_BYTES: usize = 16 * 1024;

/// A function that this process serves, from any of its threads. Dropped, it is served no more: what
/// was received may still be answered.
pub struct Service {
    shared: Arc<Shared>,
    info: FunctionInfo,
}

/// What comes after a reply.
pub struct Next {
    /// The next call; none where none came in time.
    pub call: Option<Call>,
    /// Whether somebody waited for the reply. Where no call came, true says nothing.
    pub was_heard: bool,
}

impl Service {
    pub(crate) fn new(shared: Arc<Shared>, info: FunctionInfo) -> Service {
        Service { shared, info }
    }

    /// Returns its identity.
    pub fn id(&self) -> FunctionId {
        self.info.function
    }

    /// Returns how many bytes a call's payload may have, and how many a reply.
    pub fn limits(&self) -> (usize, usize) {
        (self.info.request_bytes as usize, self.info.reply_bytes as usize)
    }

    /// Waits for the next call, or message, `limit` at most; `None` where none came in time.
    ///
    /// # Errors
    /// `NotServing` once the function is served no more.
    pub fn receive(&self, limit: Option<Duration>) -> Result<Option<Call>, RpcError> {
        let link = self.shared.link()?;
        let slot = link.slot()?;
        let next = self.await_next(link, slot, (0, 0), &[], limit)?;
        Ok(next.call)
    }

    /// Answers a call and waits for the next one, in one step.
    ///
    /// # Errors
    /// As `receive`. `TooLong`, before anything is done: the call is answered by its end then, as one
    /// that is dropped.
    pub fn reply_and_receive(
        &self,
        call: Call,
        reply: &[u8],
        limit: Option<Duration>,
    ) -> Result<Next, RpcError> {
        self.answer_and_receive(call, reply, 0, limit)
    }

    /// The same with a no, and a text that says why.
    ///
    /// # Errors
    /// As `reply_and_receive`.
    pub fn fail_and_receive(
        &self,
        call: Call,
        text: &str,
        limit: Option<Duration>,
    ) -> Result<Next, RpcError> {
        self.answer_and_receive(call, text.as_bytes(), REPLY_FAILED, limit)
    }

    fn answer_and_receive(
        &self,
        call: Call,
        reply: &[u8],
        status: u64,
        limit: Option<Duration>,
    ) -> Result<Next, RpcError> {
        check(reply, self.info.reply_bytes)?;
        if call.is_one_way() || reply.len() > ALONG_BYTES {
            let was_heard = match call.answer(reply, status) {
                Ok(()) => true,
                Err(RpcError::NobodyWaits) => false,
                Err(error) => return Err(error),
            };
            return Ok(Next { was_heard, call: self.receive(limit)? });
        }
        let Some((link, slot, token)) = call.into_parts() else {
            return Ok(Next { was_heard: true, call: self.receive(limit)? });
        };
        let outgoing = put(&slot, reply)?;
        self.await_next(link, slot, (token, status), &outgoing, limit)
    }

    fn await_next(
        &self,
        link: Arc<Link>,
        slot: Slot,
        (token, status): (u64, u64),
        outgoing: &[Piece],
        limit: Option<Duration>,
    ) -> Result<Next, RpcError> {
        let mut pieces = vec![slot.incoming(HEAD_BYTES + self.info.request_bytes as usize)];
        pieces.extend(outgoing);
        let asked = operation(OpKind::Receive, self.info.function, token, &pieces);
        let asked = Operation { offset: status, timeout_us: timeout_us(limit), ..asked };
        let ended = link.perform(&asked);
        if ended.is_err() && token != 0 {
            give_alone(&link, &asked, outgoing)?;
        }
        match ended {
            Ok(_) => {}
            Err(RpcError::NotDelivered(NotDelivered::TimedOut)) => {
                return Ok(Next { call: None, was_heard: true });
            }
            Err(RpcError::NotDelivered(NotDelivered::Gone)) => return Err(RpcError::NotServing),
            Err(error) => return Err(error),
        }
        let mut head = [0; HEAD_BYTES];
        slot.take(0, &mut head).map_err(|_| RpcError::Corrupt)?;
        let head = CallHead::decode(&head);
        let was_heard = head.flags & NOBODY_WAITED == 0;
        let call = Call::taken(link, slot, &head, self.info)?;
        Ok(Next { call: Some(call), was_heard })
    }

    /// Answers calls, one after the other, until the function is served no more, or the control plane
    /// has ended: what ended it. `answer` makes a reply of each call; what it says no to fails with its
    /// text. What it answers to a message is dropped. Several threads may run it at once.
    pub fn run(&self, mut answer: impl FnMut(&Call) -> Result<Vec<u8>, String>) -> RpcError {
        let mut next = self.receive(None);
        loop {
            let call = match next {
                Ok(Some(call)) => call,
                Ok(None) => {
                    next = self.receive(None);
                    continue;
                }
                Err(error) => return error,
            };
            let answered = match answer(&call) {
                Ok(reply) if reply.len() > self.info.reply_bytes as usize => {
                    let text = format!("a reply of {} bytes is too long", reply.len());
                    self.fail_and_receive(call, self.cut(&text), None)
                }
                Ok(reply) => self.reply_and_receive(call, &reply, None),
                Err(text) => self.fail_and_receive(call, self.cut(&text), None),
            };
            next = answered.map(|next| next.call);
        }
    }

    /// As much of a text as a reply carries.
    fn cut<'t>(&self, text: &'t str) -> &'t str {
        let most = text.len().min(self.info.reply_bytes as usize);
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        &text[..end]
    }
}

/// Gives the reply of a Receive that ended with an error, perhaps before it had given it.
fn give_alone(link: &Link, receive: &Operation, outgoing: &[Piece]) -> Result<(), RpcError> {
    let asked = operation(OpKind::Reply, receive.object, receive.argument, outgoing);
    match link.perform(&Operation { offset: receive.offset, ..asked }) {
        // It was given, or nobody waits for it.
        Ok(_) | Err(RpcError::NobodyWaits) => Ok(()),
        Err(error) => Err(error),
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.uses.release(self.info.function, Use::Serves, &self.shared.control);
    }
}
