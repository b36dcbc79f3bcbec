//! Answers that a service expects as orders soon, and whether looking for them pays.

use heliostat_base::looking::{Cores, Waits};

/// What a service has asked of others: of other nodes, by the node's thread.
#[derive(Default)]
pub struct Awaited {
    count: usize,
    /// When the last answer came, or the first was asked for.
    since_ns: u64,
    has_slept: bool,
    waits: Waits,
    cores: Cores,
}

impl Awaited {
    /// The service has asked for one more.
    pub fn begin(&mut self, now_ns: u64) {
        if self.count == 0 {
            (self.since_ns, self.has_slept) = (now_ns, false);
        }
        self.count += 1;
    }

    /// One has come.
    pub fn came(&mut self, now_ns: u64) {
        self.count = self.count.saturating_sub(1);
        self.waits.ended(now_ns.saturating_sub(self.since_ns), self.has_slept);
        if !self.has_slept {
            self.cores.found();
        }
        (self.since_ns, self.has_slept) = (now_ns, false);
    }

    /// Whether some are expected.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count > 0
    }

    /// Whether the next is likely to come while the loop looks for it, on a core that nobody else wants.
    pub(crate) fn pays(&self, now_ns: u64) -> bool {
        self.waits.are_short() && self.cores.are_free(now_ns)
    }

    /// The loop has given its core away for so long.
    pub(crate) fn yielded(&mut self, ns: u64, now_ns: u64) {
        if self.is_any() {
            self.cores.looked(ns, now_ns);
        }
    }

    /// The loop sleeps.
    pub(crate) fn sleeps(&mut self) {
        self.has_slept = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_come_soon_are_looked_for_and_late_ones_are_slept_for() {
        let mut awaited = Awaited::default();
        for at_ns in [0, 100_000, 200_000] {
            awaited.begin(at_ns);
            assert!(awaited.is_any());
            awaited.came(at_ns + 30_000);
        }
        assert!(awaited.pays(300_000) && !awaited.is_any());
        for at_ns in [1_000_000, 3_000_000] {
            awaited.begin(at_ns);
            awaited.sleeps();
            awaited.came(at_ns + 1_000_000);
        }
        assert!(!awaited.pays(5_000_000));
    }

    #[test]
    fn of_many_on_their_way_the_time_between_two_answers_counts() {
        let mut awaited = Awaited::default();
        (0..16).for_each(|_| awaited.begin(0));
        (1..=16).for_each(|turn| awaited.came(turn * 40_000));
        assert!(awaited.pays(640_000));
    }

    #[test]
    fn who_loses_the_core_meanwhile_does_not_look() {
        let mut awaited = Awaited::default();
        (0..4).for_each(|_| awaited.begin(0));
        (1..4).for_each(|turn| awaited.came(turn * 10_000));
        awaited.yielded(4_000_000, 4_030_000);
        assert!(!awaited.pays(4_040_000));
    }
}
