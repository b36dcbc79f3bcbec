//! Whether a loop with nothing to move looks on for a moment, or sleeps at once.

use heliostat_base::looking::{Cores, Waits, LOOK_NS};
use heliostat_base::{clock, spin};

/// The same on a core that the loop has for itself.
const LOOK_ALONE_NS: u64 = 1_000_000;

/// What a loop knows of its waits.
pub struct Waiting {
    look_ns: u64,
    waits: Waits,
    cores: Cores,
    /// When it last moved something.
    idle_since_ns: u64,
    /// This wait has been slept in.
    has_slept: bool,
}

impl Waiting {
    /// Of a loop that has a core for itself, or shares one.
    pub fn new(is_alone: bool) -> Self {
        let look_ns = if is_alone { LOOK_ALONE_NS } else { LOOK_NS };
        let (waits, cores) = (Waits::default(), Cores::default());
        Self { look_ns, waits, cores, idle_since_ns: clock::monotonic_ns(), has_slept: false }
    }

    /// Something was moved: the wait has ended.
    pub fn moved(&mut self, now_ns: u64) {
        let waited_ns = now_ns.saturating_sub(self.idle_since_ns);
        if waited_ns > 0 && self.idle_since_ns > 0 {
            self.waits.ended(waited_ns, self.has_slept);
            if !self.has_slept {
                self.cores.found();
            }
        }
        (self.idle_since_ns, self.has_slept) = (now_ns, false);
    }

    /// Whether to look once more, after giving others of this core their turn; else to sleep.
    pub fn looks_on(&mut self, now_ns: u64) -> bool {
        let is_over = now_ns.saturating_sub(self.idle_since_ns) >= self.look_ns;
        let pays = self.waits.are_short() || self.look_ns == LOOK_ALONE_NS;
        if is_over || !pays || !self.cores.are_free(now_ns) {
            return false;
        }
        spin::yield_now();
        let after_ns = clock::monotonic_ns();
        self.cores.looked(after_ns.saturating_sub(now_ns), after_ns);
        true
    }

    /// The loop sleeps now.
    pub fn sleeps(&mut self) {
        self.has_slept = true;
    }
}
