//! When a file whose lease was broken, or was not to be had, is asked for again.
//!
//! ```text
//! lost --read by the kernel--> asked --given--> leased, and the next loss is asked for at once
//!                               | not given
//!                               v
//!                              waits, twice as long each time, for the next read
//! ```
//!
//! Asking costs the control plane some ten microseconds and makes writers wait once more, so a file
//! that is written all the time is asked for seldom; a file that nobody reads, never.

/// Wait after the first vain question.
const WAIT_SHORTEST_NS: u64 = 10_000_000;
/// Longest wait.
const WAIT_LONGEST_NS: u64 = 1_000_000_000;

/// When to ask for one file's lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Again {
    next_ns: u64,
    wait_ns: u64,
    is_asked: bool,
}

impl Again {
    /// Whether to ask now; then the answer is awaited.
    pub fn asks(&mut self, now_ns: u64) -> bool {
        let asks = !self.is_asked && now_ns >= self.next_ns;
        self.is_asked |= asks;
        asks
    }

    /// The answer has come.
    pub fn answered(&mut self, is_given: bool, now_ns: u64) {
        let longer = (self.wait_ns * 2).clamp(WAIT_SHORTEST_NS, WAIT_LONGEST_NS);
        self.wait_ns = if is_given { 0 } else { longer };
        self.next_ns = now_ns.saturating_add(self.wait_ns);
        self.is_asked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_put_once_and_in_vain_ever_more_seldom() {
        let (mut again, mut now, mut asked) = (Again::default(), 5, 0);
        while now < 20 * WAIT_LONGEST_NS {
            if again.asks(now) {
                assert!(!again.asks(now + WAIT_LONGEST_NS), "the answer is awaited");
                again.answered(false, now);
                asked += 1;
            }
            now += 1_000_000;
        }
        assert!((20..30).contains(&asked), "{asked}");
    }

    #[test]
    fn once_given_the_next_loss_is_asked_for_at_once() {
        let mut again = Again::default();
        assert!(again.asks(0));
        again.answered(false, 0);
        assert!(!again.asks(WAIT_SHORTEST_NS - 1) && again.asks(WAIT_SHORTEST_NS));
        again.answered(true, WAIT_SHORTEST_NS);
        assert!(again.asks(WAIT_SHORTEST_NS + 1));
    }
}
