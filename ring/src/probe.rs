//! Noticing that there is nobody at the other end.
//!
//! Shared memory does not tell that its other user has died. Whoever blocks on a ring therefore
//! brings a probe, which is asked before a sleep and again every [`PROBE_EVERY_MS`] of it; that is
//! well below the 100 ms within which a death must be noticed.

use heliostat_base::process::PidFd;

/// How long a sleep lasts at most between two questions to the probe.
pub const PROBE_EVERY_MS: u64 = 50;

/// Knows whether the other side still lives.
pub trait Probe {
    /// False once the other side is gone for good.
    fn peer_alive(&self) -> bool;

    /// Whether the answer can ever change. If not, sleeps need not be cut into slices.
    fn may_change(&self) -> bool {
        true
    }
}

/// The other side cannot die before us (it is a thread of this process).
#[derive(Clone, Copy, Debug, Default)]
pub struct Immortal;

impl Probe for Immortal {
    fn peer_alive(&self) -> bool {
        true
    }
    fn may_change(&self) -> bool {
        false
    }
}

impl Probe for PidFd {
    fn peer_alive(&self) -> bool {
        self.is_alive()
    }
}

impl<F: Fn() -> bool> Probe for F {
    fn peer_alive(&self) -> bool {
        self()
    }
}
