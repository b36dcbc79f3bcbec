//! Closes foreign descriptors beside the event loop, because closing may wait for their owner.
//!
//! A descriptor that a client sent may be a socket that lingers or a file whose server is the
//! client itself; close(2) on either waits as long as that client pleases. One thread takes such
//! waits upon itself. Its queue is bounded: when a client has stuffed it, the rest is closed in
//! the event loop after all, which is slow and not wrong.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::Arc;
use std::time::Duration;

/// Descriptors that wait to be closed.
const QUEUE_MAX: usize = 1024;
/// How often those that others still use are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The queue's end in the event loop.
pub struct Closer(Option<SyncSender<Arc<OwnedFd>>>);

impl Closer {
    /// Starts the thread; it ends with the value.
    pub fn start() -> Closer {
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("closer".into());
        let started = thread.spawn(move || close_all(&receiver));
        Closer(started.ok().map(|_| sender))
    }

    /// Closes a descriptor soon.
    pub fn close(&self, fd: OwnedFd) {
        self.close_last(Arc::new(fd));
    }

    /// Closes a descriptor soon after everybody else has let go of it, so that nobody else's is the
    /// last close of its file, which may take long.
    pub fn close_last(&self, fd: Arc<OwnedFd>) {
        let Some(queue) = &self.0 else { return };
        if let Err(TrySendError::Full(fd) | TrySendError::Disconnected(fd)) = queue.try_send(fd) {
            drop(fd);
        }
    }
}

fn close_all(queue: &Receiver<Arc<OwnedFd>>) {
    let mut used: Vec<Arc<OwnedFd>> = Vec::new();
    loop {
        let next = match used.is_empty() {
            true => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => queue.recv_timeout(LOOK),
        };
        match next {
            Ok(fd) if Arc::strong_count(&fd) == 1 => drop(fd),
            Ok(fd) => used.push(fd),
            Err(RecvTimeoutError::Timeout) => used.retain(|fd| Arc::strong_count(fd) > 1),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_others_use_waits_for_them_and_delays_nobody() {
        let ((mut reader, writer), (mut other, quick)) =
            (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let (closer, shared) = (Closer::start(), Arc::new(OwnedFd::from(writer)));
        closer.close_last(shared.clone());
        closer.close(quick.into());
        let mut found = Vec::new();
        assert_eq!(other.read_to_end(&mut found).unwrap(), 0);
        assert_eq!(Arc::strong_count(&shared), 2);
        drop(shared);
        assert_eq!(reader.read_to_end(&mut found).unwrap(), 0);
    }
}
