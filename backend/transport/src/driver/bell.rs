//! The bell of a node's thread: rung by who has a command for it while it sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use heliostat_base::event::Event;
use heliostat_base::sleeper::Sleeper;

/// An eventfd, and whether the thread sleeps.
#[derive(Debug)]
pub struct Bell {
    event: Event,
    sleeper: Sleeper,
}

/// The remotes' end: rings a last time when the last one is gone.
#[derive(Debug)]
pub struct Ringer(Arc<Bell>);

impl Bell {
    /// Both ends of a bell of a thread that is awake.
    pub fn create() -> io::Result<(Arc<Bell>, Ringer)> {
        let event = Event::create().map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        let bell = Arc::new(Bell { event, sleeper: Sleeper::awake() });
        Ok((Arc::clone(&bell), Ringer(bell)))
    }

    /// The thread is about to sleep: it looks for commands once more.
    pub fn lie_down(&self) {
        self.sleeper.lie_down();
    }

    /// The thread is awake.
    pub fn rise(&self) {
        self.sleeper.rise();
    }

    /// Takes what has rung.
    pub fn drain(&self) {
        // It fails only where nobody rang.
        let _ = self.event.drain();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Ringer {
    /// Wakes the thread if it sleeps. A command was sent before.
    pub fn ring(&self) {
        if self.0.sleeper.must_ring() {
            // A full counter is readable already, and nothing else fails.
            let _ = self.0.event.ring();
        }
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        self.ring();
    }
}
