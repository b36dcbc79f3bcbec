//! A loop's bell: rung by whoever gives it an order while it sleeps, and by nobody else.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_base::sleeper::Sleeper;
use rustix::event::{eventfd, EventfdFlags};

/// An eventfd, and whether the loop sleeps.
pub struct Bell {
    event: Arc<OwnedFd>,
    sleeper: Sleeper,
}

impl Bell {
    /// Of a loop that is awake.
    ///
    /// # Errors
    /// The system has no descriptor.
    pub fn create() -> io::Result<Arc<Bell>> {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Arc::new(Bell { event, sleeper: Sleeper::awake() }))
    }

    /// Wakes the loop if it sleeps. An order was sent before.
    pub(crate) fn ring(&self) {
        if self.sleeper.must_ring() {
            // It fails only when the counter is full, and then it rings already.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// What becomes readable when it rings.
    pub(crate) fn event(&self) -> &Arc<OwnedFd> {
        &self.event
    }

    /// The loop is about to sleep: it looks for orders once more.
    pub(crate) fn lie_down(&self) {
        self.sleeper.lie_down();
    }

    /// The loop is awake.
    pub(crate) fn rise(&self) {
        self.sleeper.rise();
    }

    /// Takes what has rung. Nothing to read is as good: orders are looked for before each sleep.
    pub(crate) fn drain(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.event, &mut count);
    }
}
