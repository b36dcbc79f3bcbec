//! Closes foreign descriptors beside the event loop, because closing may wait for their owner.
//!
//! A descriptor that a client sent may be a socket that lingers or a file whose server is the
//! client itself; close(2) on either waits as long as that client pleases. One thread takes such
//! waits upon itself. Its queue is bounded: when a client has stuffed it, the rest is closed in
//! the event loop after all, which is slow and not wrong.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{sync_channel, SyncSender, TrySendError};

/// Descriptors that wait to be closed.
const QUEUE_MAX: usize = 1024;

/// The queue's end in the event loop.
pub struct Closer(Option<SyncSender<OwnedFd>>);

impl Closer {
    /// Starts the thread; it ends with the value.
    pub fn start() -> Closer {
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("closer".into());
        let started = thread.spawn(move || receiver.iter().for_each(drop::<OwnedFd>));
        Closer(started.ok().map(|_| sender))
    }

    /// Closes a descriptor soon.
    pub fn close(&self, fd: OwnedFd) {
        let Some(queue) = &self.0 else { return };
        if let Err(TrySendError::Full(fd) | TrySendError::Disconnected(fd)) = queue.try_send(fd) {
            drop(fd);
        }
    }
}
