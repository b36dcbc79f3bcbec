//! A call that this process has received: what was asked, by whom, and its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::operation::REPLY_FAILED;
use heliostat_abi::rpc::{CallHead, FunctionInfo, HEAD_BYTES};

use super::function::{check, put};
use super::link::{operation, Link};
use super::slots::Slot;
use super::RpcError;

/// Who calls, as the kernel has proved it to the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Its user.
    pub user: u32,
    /// Its process.
    pub process: u32,
    /// Its session with the control plane; none before or after has the same.
    pub session: ObjectId,
    /// Its node.
    pub node: u32,
}

/// A call, or a message. A call that is dropped without an answer fails at its caller.
pub struct Call {
    place: Option<Place>,
    payload: Vec<u8>,
    caller: Caller,
    /// When the caller gives up.
    until: Option<Instant>,
    info: FunctionInfo,
}

struct Place {
    link: Arc<Link>,
    slot: Slot,
    /// 0 for a message.
    token: u64,
}

impl Call {
    /// Takes a call out of its slot.
    pub(crate) fn taken(
        link: Arc<Link>,
        slot: Slot,
        head: &CallHead,
        info: FunctionInfo,
    ) -> Result<Call, RpcError> {
        if head.bytes > info.request_bytes {
            return Err(RpcError::Corrupt);
        }
        let mut payload = vec![0; head.bytes as usize];
        slot.take(HEAD_BYTES, &mut payload).map_err(|_| RpcError::Corrupt)?;
        let CallHead { user, process, session, node, token, .. } = *head;
        let left = Some(head.left_us).filter(|left| *left > 0).map(Duration::from_micros);
        let until = left.and_then(|left| Instant::now().checked_add(left));
        let place = Some(Place { link, slot, token });
        Ok(Call { place, payload, caller: Caller { user, process, session, node }, until, info })
    }

    /// Returns what was asked.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Returns who asks.
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// Whether it is a message, which has no reply.
    pub fn is_one_way(&self) -> bool {
        self.place.as_ref().is_none_or(|place| place.token == 0)
    }

    /// Returns for how long its caller still waits; `None` for ever.
    pub fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Answers it. Nothing happens with a message.
    ///
    /// # Errors
    /// `NobodyWaits` when the caller has ended, or its time was over. `TooLong`: the caller hears that
    /// the call was dropped.
    pub fn reply(self, reply: &[u8]) -> Result<(), RpcError> {
        self.answer(reply, 0)
    }

    /// Says no, and why.
    ///
    /// # Errors
    /// As `reply`.
    pub fn fail(self, text: &str) -> Result<(), RpcError> {
        self.answer(text.as_bytes(), REPLY_FAILED)
    }

    pub(crate) fn answer(mut self, reply: &[u8], status: u64) -> Result<(), RpcError> {
        check(reply, self.info.reply_bytes)?;
        match self.place.take() {
            Some(place) => place.answer(self.info.function, reply, status),
            None => Ok(()),
        }
    }

    /// What answers it, for who sees to that.
    pub(crate) fn into_parts(mut self) -> Option<(Arc<Link>, Slot, u64)> {
        self.place.take().map(|Place { link, slot, token }| (link, slot, token))
    }
}

impl Place {
    fn answer(self, function: ObjectId, reply: &[u8], status: u64) -> Result<(), RpcError> {
        if self.token == 0 {
            return Ok(());
        }
        let outgoing = put(&self.slot, reply)?;
        let asked = operation(OpKind::Reply, function, self.token, &outgoing);
        self.link.perform(&Operation { offset: status, ..asked }).map(drop)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let text = "the server dropped the call";
        let text = &text.as_bytes()[..text.len().min(self.info.reply_bytes as usize)];
        // In a forked child the call is its parent's.
        if let Some(place) = self.place.take().filter(|place| place.link.is_own()) {
            // Where nobody waits it is as good.
            let _ = place.answer(self.info.function, text, REPLY_FAILED);
        }
    }
}
