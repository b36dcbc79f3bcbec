//! How much of a loop's time its copies from the cache take.
//!
//! ```text
//! |-- 10 ms ----------|-- 10 ms ----------|
//!   copy  copy   copy   (none)                 percent of each; the last one counts
//! ```
//! Only copies that take longer than the looks at the clock around them are timed.

use super::way::{is_busy, COPYING_FROM};

/// Copies of fewer bytes are not timed: one takes less than some 2 us, and the clock 50 ns.
pub const TIMED_FROM: u64 = 32 * 1024;
/// How long is looked at. What was found counts for as long again.
const SPAN_NS: u64 = 10_000_000;

/// The time of one loop's copies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copying {
    since_ns: u64,
    spent_ns: u64,
    percent: u64,
    is_much: bool,
}

impl Copying {
    /// Notes a copy that ended just now.
    pub fn note(&mut self, spent_ns: u64, now_ns: u64) {
        self.pass(now_ns);
        self.spent_ns += spent_ns;
    }

    /// Whether the loop copies most of the time.
    pub fn is_much(&mut self, now_ns: u64) -> bool {
        self.pass(now_ns);
        self.is_much
    }

    /// Percent of the last span.
    pub fn percent(&self) -> u64 {
        self.percent
    }

    fn pass(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        if passed_ns < SPAN_NS {
            return;
        }
        self.percent = (self.spent_ns * 100 / passed_ns).min(100);
        self.is_much = is_busy(self.is_much, self.percent, COPYING_FROM);
        (self.since_ns, self.spent_ns) = (now_ns, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_loop_that_copies_most_of_the_time_is_seen_within_two_spans_and_forgotten_when_it_stops() {
        let mut copying = Copying::default();
        let busy: Vec<bool> = (1..=30)
            .map(|at| {
                copying.note(7 * MS / 10, 1000 * MS + at * MS);
                copying.is_much(1000 * MS + at * MS)
            })
            .collect();
        assert!(!busy[0] && busy[20..].iter().all(|it| *it), "{busy:?}");
        assert!((60..=75).contains(&copying.percent()), "{}", copying.percent());
        assert!(copying.is_much(1039 * MS), "the span is not over");
        assert!(!copying.is_much(1100 * MS));
    }

    #[test]
    fn a_loop_that_copies_a_little_is_not_held_up() {
        let mut copying = Copying::default();
        assert!((1..100).all(|at| {
            copying.note(MS / 5, at * MS);
            !copying.is_much(at * MS)
        }));
    }
}
