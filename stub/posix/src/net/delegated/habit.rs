//! Whether a process's connections live long enough to be carried.
//!
//! Handing a connection over costs some 25 system calls and the loop's part. One that is closed after a
//! few writes never earns that back, and who serves such connections serves many.

use heliostat_base::sync::AtomicU32;
use heliostat_base::sync::Ordering::Relaxed;

/// A connection that has written no more often was short.
const SHORT_WRITES: u32 = 4;
/// After so many short ones in a row the next are left to the kernel,
const STREAK_MAX: u32 = 16;
/// but for one of so many, which shows whether they have become longer.
const TRIED_EVERY: u32 = 64;

static HABIT: Habit = Habit::new();

struct Habit {
    /// Short ones since the last long one.
    streak: AtomicU32,
    /// Connections that were not carried for that.
    skipped: AtomicU32,
}

impl Habit {
    const fn new() -> Self {
        Self { streak: AtomicU32::new(0), skipped: AtomicU32::new(0) }
    }

    fn is_worth_it(&self) -> bool {
        self.streak.load(Relaxed) < STREAK_MAX
            || self.skipped.fetch_add(1, Relaxed) % TRIED_EVERY == TRIED_EVERY - 1
    }

    fn ended(&self, writes: u32) {
        match writes <= SHORT_WRITES {
            true => _ = self.streak.fetch_add(1, Relaxed),
            false => self.streak.store(0, Relaxed),
        }
    }
}

/// Whether the next connection is to be carried.
pub fn is_worth_it() -> bool {
    HABIT.is_worth_it()
}

/// A carried connection was closed after so many writes.
pub fn ended(writes: u32) {
    HABIT.ended(writes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_connections_in_a_row_are_left_to_the_kernel_until_one_is_long() {
        let habit = Habit::new();
        (0..STREAK_MAX).for_each(|_| {
            assert!(habit.is_worth_it());
            habit.ended(1);
        });
        let tried = (0..TRIED_EVERY * 3).filter(|_| habit.is_worth_it()).count();
        assert_eq!(tried, 3);
        habit.ended(1000);
        assert!(habit.is_worth_it());
    }
}
