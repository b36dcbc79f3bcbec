//! Waiting without sleeping: one pause, one yield, and the mixture that works on shared cores.

use crate::sys::{raw, Sysno};

/// Pauses between two yields. On one core eight pauses cost what a yield costs; fewer would make
/// system calls of the two-core case, more would starve a peer on the same core.
pub const PAUSES_PER_YIELD: u32 = 8;

/// Tells the core that this is a spin loop.
#[cfg(not(loom))]
#[inline(always)]
pub fn pause() {
    std::hint::spin_loop();
}

/// Under loom who waits lets others run, or the model would not end.
#[cfg(loom)]
pub use loom::thread::{yield_now as pause, yield_now};

/// Lets another thread of this core run (raw sched_yield).
#[cfg(not(loom))]
#[inline]
pub fn yield_now() {
    // SAFETY: sched_yield takes nothing and cannot fail.
    let _ = unsafe { raw(Sysno::sched_yield as usize, [0; 6]) };
}

/// Sleeps for about `ns`, whatever else wants the core; signals may end it early.
pub fn sleep_ns(ns: u64) {
    let spec = [(ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64];
    let at = spec.as_ptr() as usize;
    // SAFETY: two words laid out as a timespec, live for the call; the rest is not asked for.
    let _ = unsafe { raw(Sysno::nanosleep as usize, [at, 0, 0, 0, 0, 0]) };
}

/// One spin loop: pauses, and gives up the core after every [`PAUSES_PER_YIELD`] of them.
#[derive(Default, Debug)]
pub struct Spin {
    turns: u32,
}

impl Spin {
    /// A loop that has not begun.
    pub const fn new() -> Spin {
        Spin { turns: 0 }
    }

    /// Passes one turn; says whether this turn gave up the core.
    #[inline]
    pub fn turn(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        if self.turns % PAUSES_PER_YIELD == 0 {
            yield_now();
            true
        } else {
            pause();
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_eighth_turn_yields() {
        let mut spin = Spin::new();
        let yields = (0..80).filter(|_| spin.turn()).count();
        assert_eq!(yields, 10);
    }
}
