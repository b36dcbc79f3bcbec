//! A call that goes on while its caller does something else.

use std::sync::Arc;
use std::time::Duration;

use super::function::take_reply;
use super::link::Link;
use super::node::on_node;
use super::slots::Slot;
use super::RpcError;

/// A call that was begun. Dropped, it is cancelled, and its end waited for: its place in the window
/// is not another call's before that.
pub struct PendingCall {
    link: Arc<Link>,
    slot: Slot,
    /// Which errors name.
    node: u32,
    /// None once it has ended.
    tag: Option<u64>,
    /// How it has ended, where that was seen by a look.
    ended: Option<Result<u64, RpcError>>,
}

impl PendingCall {
    pub(crate) fn new(link: Arc<Link>, slot: Slot, tag: u64, node: u32) -> PendingCall {
        PendingCall { link, slot, node, tag: Some(tag), ended: None }
    }

    /// Waits for its reply, until the time is over that was said when it was begun.
    ///
    /// # Errors
    /// As [`Function::call`](super::Function::call).
    pub fn wait(mut self) -> Result<Vec<u8>, RpcError> {
        let node = self.node;
        self.take().map_err(|error| on_node(node, error))
    }

    fn take(&mut self) -> Result<Vec<u8>, RpcError> {
        let result = match self.tag.take() {
            Some(tag) => self.link.wait(tag)?,
            None => self.ended.take().unwrap_or(Err(RpcError::Corrupt))?,
        };
        let mut reply = Vec::new();
        take_reply(&self.slot, result, &mut reply)?;
        Ok(reply)
    }

    /// Waits for so long at most, and answers whether it has ended: then `wait` does not wait.
    pub fn look_within(&mut self, limit: Duration) -> bool {
        let Some(tag) = self.tag else { return true };
        let Some(ended) = self.link.wait_within(tag, limit).transpose() else { return false };
        (self.tag, self.ended) = (None, Some(ended));
        true
    }

    /// Ends it and says how it ended: as if nobody had cancelled it, where the reply was there.
    ///
    /// # Errors
    /// `NotDelivered(Cancelled)`, or `Unanswered(Cancelled)`: the server goes on, and hears that nobody
    /// waits for its reply. Others as `wait`.
    pub fn cancel(self) -> Result<Vec<u8>, RpcError> {
        self.tag.iter().for_each(|tag| self.link.cancel(*tag));
        self.wait()
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        // In a forked child the call is its parent's.
        let Some(tag) = self.tag.take().filter(|_| self.link.is_own()) else { return };
        self.link.cancel(tag);
        let _ = self.link.wait(tag);
    }
}
