//! Closes what may wait: a connection that lingers, beside the thread that accepts.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{sync_channel, SyncSender};

use rustix::net::sockopt::{set_socket_linger, socket_linger};

/// Descriptors whose closing may wait, in line.
const CLOSING_MAX: usize = 1024;

/// Who closes connections that linger: close(2) of such waits, if nobody else has it.
#[derive(Default)]
pub struct Closing(Option<SyncSender<OwnedFd>>);

impl Closing {
    /// Closes a connection that a worker may have by now.
    pub fn close(&mut self, fd: OwnedFd) {
        if !matches!(socket_linger(&fd), Ok(Some(_))) {
            return;
        }
        let line = self.0.get_or_insert_with(|| {
            let (line, closed) = sync_channel::<OwnedFd>(CLOSING_MAX);
            // Without the thread the line ends at once, and what lingers is closed without waiting.
            let name = std::thread::Builder::new().name("listener-close".into());
            let _ = name.spawn(move || closed.into_iter().for_each(drop));
            line
        });
        if let Err(error) = line.try_send(fd) {
            let (std::sync::mpsc::TrySendError::Full(fd)
            | std::sync::mpsc::TrySendError::Disconnected(fd)) = error;
            let _ = set_socket_linger(&fd, None);
        }
    }
}
