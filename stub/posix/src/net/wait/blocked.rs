//! What ends a call that blocks, beside what it waits for: handlers, and its socket's timeout. Both count
//! from where the call began, however often it sleeps and looks again.

use std::cell::OnceCell;

use heliostat_base::{call, clock};

use crate::thread::Began;

/// A call that blocks.
pub struct Blocked {
    /// Its descriptor.
    pub fd: i32,
    /// It waits for room, not for bytes.
    pub for_room: bool,
    /// When it began.
    pub began: Began,
    ends_ns: OnceCell<Option<u64>>,
}

impl Blocked {
    /// A call that reads.
    pub fn reading(fd: i32, began: Began) -> Self {
        Self { fd, for_room: false, began, ends_ns: OnceCell::new() }
    }

    /// A call that writes.
    pub fn writing(fd: i32, began: Began) -> Self {
        Self { for_room: true, ..Self::reading(fd, began) }
    }

    /// The monotonic time at which the socket's timeout is over. It runs from the first sleep on, as the
    /// kernel's does.
    fn ends_ns(&self) -> Option<u64> {
        let name = if self.for_room { libc::SO_SNDTIMEO } else { libc::SO_RCVTIMEO };
        *self.ends_ns.get_or_init(|| {
            let limit = call::socket_timeout(self.fd, name)?;
            let slept_ns = match self.began.slept_ns {
                0 => clock::monotonic_ns(),
                known => known,
            };
            Some(slept_ns.saturating_add(limit))
        })
    }

    /// How long it may go on, in ns, where the socket has a timeout.
    pub fn left(&self) -> Option<u64> {
        self.ends_ns().map(|ends| ends.saturating_sub(clock::monotonic_ns()))
    }

    /// True when its time is over.
    pub fn is_over(&self) -> bool {
        self.left() == Some(0)
    }

    /// True where it has slept before and its socket has a timeout.
    pub fn has_less_than_its_timeout(&self) -> bool {
        self.began.slept_ns != 0 && self.ends_ns().is_some()
    }

    /// A handler has run since it began: one without SA_RESTART, or any where the socket has a timeout
    /// (signal(7)).
    pub fn is_interrupted(&self) -> bool {
        let interrupts = self.began.interrupts;
        interrupts.hard_since() || interrupts.any_since() && self.ends_ns().is_some()
    }
}
