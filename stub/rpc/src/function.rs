//! A function that this process calls.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{OpKind, Operation, Piece};
use heliostat_abi::rpc::name::THIS_NODE;
use heliostat_abi::rpc::operation::SEND_NOW;
use heliostat_abi::rpc::{FunctionInfo, RpcRequest, CALL_FAILED};

use super::link::{operation, timeout_us, Link};
use super::node::{is_unreachable, on_node};
use super::slots::Slot;
use super::uses::Use;
use super::{FunctionId, NotDelivered, PendingCall, RpcError, Shared, MESSAGE_BYTES_MAX};

/// A function of another program, perhaps of this one.
///
/// Where its last server has ended and another one has begun, the next call finds that one by the name.
pub struct Function {
    shared: Arc<Shared>,
    /// By this it is found again.
    asked: RpcRequest,
    info: Mutex<FunctionInfo>,
}

impl Function {
    pub(crate) fn new(shared: Arc<Shared>, asked: RpcRequest, info: FunctionInfo) -> Function {
        Function { shared, asked, info: Mutex::new(info) }
    }

    /// Returns its identity; the next function of the name has another.
    pub fn id(&self) -> FunctionId {
        self.info().function
    }

    /// Returns the node that serves it; 0 where that is this one.
    pub fn node(&self) -> u32 {
        self.info().node
    }

    /// Returns how many bytes a call's payload may have, and how many a reply.
    pub fn limits(&self) -> (usize, usize) {
        let info = self.info();
        (info.request_bytes as usize, info.reply_bytes as usize)
    }

    /// Calls it and waits for its reply, `limit` at most.
    ///
    /// # Errors
    /// `Failed` when the function says no; others say whether it may have run
    /// ([`RpcError::may_have_run`]).
    pub fn call(&self, payload: &[u8], limit: Option<Duration>) -> Result<Vec<u8>, RpcError> {
        let mut reply = Vec::new();
        self.call_into(payload, &mut reply, limit)?;
        Ok(reply)
    }

    /// The same into memory that is there; its bytes are the reply's afterwards.
    ///
    /// # Errors
    /// As `call`.
    pub fn call_into(
        &self,
        payload: &[u8],
        reply: &mut Vec<u8>,
        limit: Option<Duration>,
    ) -> Result<(), RpcError> {
        self.again(limit, |info, limit| {
            let link = self.shared.link()?;
            let (slot, asked) = prepare(&link, info, payload, limit)?;
            let result = link.perform(&asked)?;
            take_reply(&slot, result, reply)
        })
    }

    /// Calls it and asks `stop` each time that `every` is over; true cancels the call. For programs that
    /// hear of signals between two looks.
    ///
    /// # Errors
    /// As `call`; `NotDelivered(Cancelled)` and `Unanswered(Cancelled)` where it was cancelled.
    pub fn call_unless(
        &self,
        payload: &[u8],
        limit: Option<Duration>,
        every: Duration,
        mut stop: impl FnMut() -> bool,
    ) -> Result<Vec<u8>, RpcError> {
        self.again(limit, |info, limit| {
            // The node is named once, for what becomes of both tries.
            let mut pending = self.begin_as(info, (payload, THIS_NODE), limit)?;
            while !pending.look_within(every) {
                if stop() {
                    return pending.cancel();
                }
            }
            pending.wait()
        })
    }

    /// Begins a call, whose reply is waited for later.
    ///
    /// # Errors
    /// It was not begun.
    pub fn begin(&self, payload: &[u8], limit: Option<Duration>) -> Result<PendingCall, RpcError> {
        let info = self.info();
        let begun = self.begin_as(&info, (payload, info.node), limit);
        begun.map_err(|error| on_node(info.node, error))
    }

    fn begin_as(
        &self,
        info: &FunctionInfo,
        (payload, node): (&[u8], u32),
        limit: Option<Duration>,
    ) -> Result<PendingCall, RpcError> {
        let link = self.shared.link()?;
        let (slot, asked) = prepare(&link, info, payload, limit)?;
        let tag = link.start(&asked)?;
        Ok(PendingCall::new(link, slot, tag, node))
    }

    /// Sends it a message of at most [`MESSAGE_BYTES_MAX`] bytes, which no reply comes to. Waits for
    /// room in line, `limit` at most; afterwards the message waits there for a server, whatever becomes
    /// of this process.
    ///
    /// # Errors
    /// It is not in line.
    pub fn send(&self, payload: &[u8], limit: Option<Duration>) -> Result<(), RpcError> {
        self.again(limit, |info, limit| self.put_in_line(info, payload, timeout_us(limit), 0))
    }

    /// The same, now or never.
    ///
    /// # Errors
    /// As `send`; `NotDelivered(Full)` when there is no room.
    pub fn try_send(&self, payload: &[u8]) -> Result<(), RpcError> {
        self.again(None, |info, _| self.put_in_line(info, payload, 0, SEND_NOW))
    }

    fn put_in_line(
        &self,
        info: &FunctionInfo,
        payload: &[u8],
        timeout_us: u32,
        argument: u64,
    ) -> Result<(), RpcError> {
        check(payload, info.request_bytes.min(MESSAGE_BYTES_MAX))?;
        let link = self.shared.link()?;
        let slot = link.slot()?;
        let outgoing = put(&slot, payload)?;
        let asked = operation(OpKind::Send, info.function, argument, &outgoing);
        link.perform(&Operation { timeout_us, ..asked }).map(drop)
    }

    /// Tries twice where nobody serves the function that was found: the first try was not delivered.
    fn again<T>(
        &self,
        limit: Option<Duration>,
        mut attempt: impl FnMut(&FunctionInfo, Option<Duration>) -> Result<T, RpcError>,
    ) -> Result<T, RpcError> {
        let (begun, info) = (Instant::now(), self.info());
        let node = info.node;
        let missed = match attempt(&info, limit) {
            Err(RpcError::NotDelivered(why @ (NotDelivered::Gone | NotDelivered::NodeDown))) => why,
            done => return done.map_err(|error| on_node(node, error)),
        };
        let found = self.find_again(info.function).map_err(|error| {
            let is_down = missed == NotDelivered::NodeDown || is_unreachable(&error);
            let why = if is_down { NotDelivered::NodeDown } else { NotDelivered::Gone };
            on_node(node, RpcError::NotDelivered(why))
        });
        let info = found?;
        let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        attempt(&info, left).map_err(|error| on_node(node, error))
    }

    fn find_again(&self, gone: FunctionId) -> Result<FunctionInfo, RpcError> {
        let mut info = self.info.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have found it meanwhile.
        if info.function == gone {
            let shared = &self.shared;
            let found = shared.uses.ask(Use::Calls, &shared.control, &self.asked)?;
            // Of this node's the control plane knows; what was found elsewhere it keeps until told.
            match info.node {
                THIS_NODE => shared.uses.forget(gone, Use::Calls),
                _ => shared.uses.release(gone, Use::Calls, &shared.control),
            }
            *info = found;
        }
        Ok(*info)
    }

    fn info(&self) -> FunctionInfo {
        *self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        self.shared.uses.release(self.id(), Use::Calls, &self.shared.control);
    }
}

/// Puts a call's payload into a slot: what is to be asked.
fn prepare(
    link: &Link,
    info: &FunctionInfo,
    payload: &[u8],
    limit: Option<Duration>,
) -> Result<(Slot, Operation), RpcError> {
    check(payload, info.request_bytes)?;
    let slot = link.slot()?;
    // A place has at least a byte.
    let place = slot.incoming(info.reply_bytes.max(1) as usize);
    let mut pieces = vec![place];
    pieces.extend(put(&slot, payload)?);
    let asked = operation(OpKind::Call, info.function, 0, &pieces);
    Ok((slot, Operation { timeout_us: timeout_us(limit), ..asked }))
}

/// Puts a payload into a slot: its piece, or none where it is empty.
pub(crate) fn put(slot: &Slot, payload: &[u8]) -> Result<Vec<Piece>, RpcError> {
    slot.put(payload).map_err(|_| RpcError::Corrupt)?;
    Ok(Vec::from_iter((!payload.is_empty()).then(|| slot.outgoing(payload.len()))))
}

pub(crate) fn check(payload: &[u8], limit: u32) -> Result<(), RpcError> {
    let (bytes, limit) = (payload.len(), limit as usize);
    if bytes > limit {
        return Err(RpcError::TooLong { bytes, limit });
    }
    Ok(())
}

/// Takes a call's reply out of its slot.
pub(crate) fn take_reply(slot: &Slot, result: u64, reply: &mut Vec<u8>) -> Result<(), RpcError> {
    reply.resize((result & (CALL_FAILED - 1)) as usize, 0);
    slot.take(0, reply).map_err(|_| RpcError::Corrupt)?;
    if result & CALL_FAILED != 0 {
        return Err(RpcError::Failed(String::from_utf8_lossy(reply).into_owned()));
    }
    Ok(())
}
