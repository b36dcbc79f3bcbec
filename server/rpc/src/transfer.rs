//! Payloads that are too long for one turn: an operation's own turns carry them, a part each.

use std::sync::Arc;

use heliostat_base::mapping::{OutOfRange, SharedMapping};
use heliostat_server_loop::{copy_part, Step, Turn, COST_MIN, QUANTUM};

use super::rpcs::Rpcs;

/// Longest payload that is carried at once, while lines are matched.
pub(crate) const AT_ONCE_BYTES: u32 = QUANTUM as u32;

/// Where bytes of one session's window go.
pub(crate) struct Transfer {
    /// First byte in the window of the operation's session.
    pub from: u64,
    /// The other window.
    pub window: Arc<SharedMapping>,
    /// First byte there.
    pub into: u64,
    pub bytes: u64,
    pub done: u64,
}

/// Goes on with a transfer; `None` where the operation has none.
pub(crate) fn go_on(turn: &mut Turn<'_, Rpcs>) -> Option<Step> {
    let id = turn.id.operation;
    let session = &mut *turn.session;
    let transfer = session.service.transfers.get_mut(&id)?;
    let most = (*turn.left).max(COST_MIN) as u64;
    let bytes = most.min(transfer.bytes - transfer.done);
    let copied = transfer.carry(&session.window, bytes);
    *turn.left -= COST_MIN.max(bytes as i64);
    if copied.is_err() {
        // Both places were checked; a mapping has the last word.
        return Some(turn.fail(libc::EFAULT));
    }
    if transfer.done < transfer.bytes {
        return Some(Step::GoesOn);
    }
    session.service.transfers.remove(&id);
    turn.engine.service.landed.push(turn.id);
    Some(Step::Over)
}

impl Transfer {
    fn carry(&mut self, own: &SharedMapping, bytes: u64) -> Result<(), OutOfRange> {
        let from = (own, (self.from + self.done) as usize);
        let into = (&*self.window, (self.into + self.done) as usize);
        copy_part(from, into, bytes as usize, self.bytes)?;
        self.done += bytes;
        Ok(())
    }
}
