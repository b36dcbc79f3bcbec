//! This process's session with the server loop: a window, and operations of any thread.

use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::code::{Code, Thing};
use heliostat_abi::file::delegated::{OpKind, Operation, Piece, Pieces};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::{RpcReply, RpcRequest};
use heliostat_base::mapping::SharedMapping;
use heliostat_base::process::pid;
use heliostat_client::{ControlError, OwnSession};
use heliostat_stub_link::{SharedConnection, SharedError};

use super::slots::{Slot, Slots, SLOTS_MAX, SLOT_BYTES};
use super::RpcError;
use crate::ask::AskRpc;

/// The session.
pub(crate) struct Link {
    server: SharedConnection,
    slots: Arc<Slots>,
    pid: i32,
}

impl Link {
    /// Asks the control plane to have the loop serve a window; one with fewer slots where it allows
    /// no larger one.
    pub(crate) fn begin(control: &OwnSession) -> Result<Link, RpcError> {
        match Link::begin_with(control, SLOTS_MAX) {
            Err(RpcError::Control(ControlError::Refused { code: Code::Full, limit, bound }))
                if bound.thing == Thing::WindowBytes && limit as usize >= SLOT_BYTES =>
            {
                Link::begin_with(control, limit as usize / SLOT_BYTES)
            }
            begun => begun,
        }
    }

    fn begin_with(control: &OwnSession, slots: usize) -> Result<Link, RpcError> {
        let bytes = slots.min(SLOTS_MAX) * SLOT_BYTES;
        let made = SharedMapping::create(c"heliostat-rpc-window", bytes);
        let (fd, window) = made.map_err(RpcError::Mapping)?;
        let shown = [std::os::fd::AsRawFd::as_raw_fd(&fd)];
        let (reply, fds) = control.ask_own(&RpcRequest::Session, &shown)?;
        let (RpcReply::Session { .. }, [rings]) = (reply, fds.as_slice()) else {
            return Err(RpcError::Corrupt);
        };
        let server = SharedConnection::attach(control.standing().clone(), rings)?;
        Ok(Link { server, slots: Slots::new(window), pid: pid() })
    }

    /// Whether the rings are this process's, and not those of one that it was forked from.
    pub(crate) fn is_own(&self) -> bool {
        self.pid == pid()
    }

    /// A place in the window.
    pub(crate) fn slot(&self) -> Result<Slot, RpcError> {
        self.slots.take().ok_or(RpcError::Busy { limit: self.slots.count() })
    }

    /// Has an operation done and waits for its end: its result, which is no error.
    pub(crate) fn perform(&self, asked: &Operation) -> Result<u64, RpcError> {
        result_of(self.server.perform(asked)?.result)
    }

    /// Begins an operation: its tag.
    pub(crate) fn start(&self, asked: &Operation) -> Result<u64, RpcError> {
        Ok(self.server.begin(asked)?)
    }

    /// Waits for its end: its result.
    pub(crate) fn wait(&self, tag: u64) -> Result<u64, RpcError> {
        result_of(self.server.wait(tag)?.result)
    }

    /// The same for so long at most; `None` where it has not ended by then.
    pub(crate) fn wait_within(&self, tag: u64, limit: Duration) -> Result<Option<u64>, RpcError> {
        let ended = self.server.wait_within(tag, limit)?;
        ended.map(|ended| result_of(ended.result)).transpose()
    }

    /// Wants an operation to end, without waiting for that.
    pub(crate) fn cancel(&self, tag: u64) {
        let asked = operation(OpKind::Cancel, ObjectId::default(), tag, &[]);
        // What cannot be cancelled ends as it would.
        let cancelled = self.server.begin(&asked);
        let _ = cancelled
            .and_then(|cancel: u64| -> Result<_, SharedError> { self.server.wait(cancel) });
    }
}

/// An operation without a time.
pub(crate) fn operation(
    kind: OpKind,
    object: ObjectId,
    argument: u64,
    pieces: &[Piece],
) -> Operation {
    let pieces = Pieces::new(pieces).unwrap_or_default();
    Operation { kind, object, offset: 0, tag: 0, timeout_us: 0, argument, pieces }
}

/// Microseconds as a record says them: at least one, since none means for ever, and no more than fit.
pub(crate) fn timeout_us(limit: Option<Duration>) -> u32 {
    limit.map_or(0, |limit| u32::try_from(limit.as_micros()).unwrap_or(u32::MAX).max(1))
}

fn result_of(result: i64) -> Result<u64, RpcError> {
    u64::try_from(result).map_err(|_| RpcError::of_errno(result.unsigned_abs() as i32))
}
