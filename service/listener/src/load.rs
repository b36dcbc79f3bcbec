//! How loaded a worker is: by its own word between two looks of the kernel's, and by that then.
//!
//! ```text
//! audit: open := what the kernel counts        between: + given  - what the worker says it has closed
//! ```
//! The worker's word is foreign. What contradicts what the control plane knows is not believed, and a
//! worker that was found to say more than is true is judged by the kernel's count alone until it has
//! been right for some time. So who lies gains no more than the connections of one interval.

use heliostat_abi::listener::page::WEIGHT_MAX;

/// Connections that may be closed by word and not yet by the kernel: those of threads in close(2).
const SLACK: u64 = 8;
/// Looks in a row that have to agree before a worker is believed again.
const AGREEMENTS: u32 = 16;

/// The load of one worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Connections ever given to it and not taken back.
    given: u64,
    /// Open at the last audit.
    open: u64,
    /// Given since.
    since: u64,
    /// What it said then.
    closed_then: u64,
    /// What it says now.
    closed: u64,
    weight: u32,
    /// How often it said what cannot be.
    lies: u64,
    /// Audits left that have to agree; 0: it is believed.
    doubt: u32,
}

impl Load {
    /// One more connection is the worker's.
    pub fn give(&mut self) {
        self.given += 1;
        self.since += 1;
    }

    /// One that it had not taken is taken back.
    pub fn take_back(&mut self) {
        self.given = self.given.saturating_sub(1);
        match self.since.checked_sub(1) {
            Some(since) => self.since = since,
            None => self.open = self.open.saturating_sub(1),
        }
    }

    /// What the worker says: how many it has closed, and what it has to do beside. `untaken` of those
    /// given to it lie in its queue still, so that it cannot have closed them. True where it has closed
    /// some since it was last asked.
    pub fn hear(&mut self, closed: u64, weight: u32, untaken: u64) -> bool {
        self.weight = weight.min(WEIGHT_MAX);
        let can_be = self.given.saturating_sub(untaken);
        if closed < self.closed || closed > can_be {
            self.doubted();
            return false;
        }
        let has_closed = closed > self.closed;
        self.closed = closed;
        has_closed
    }

    /// What the kernel counts, give or take `meanwhile` connections given while it counted.
    pub fn audit(&mut self, open: u64, meanwhile: u64) {
        let expected = self.believed();
        if open > expected + SLACK + expected / 16 + meanwhile {
            self.doubted();
        } else {
            self.doubt = self.doubt.saturating_sub(1);
        }
        (self.open, self.since, self.closed_then) = (open, 0, self.closed);
    }

    /// Open connections, as far as is known, and what the worker adds.
    pub fn value(&self) -> u64 {
        self.connections() + u64::from(self.weight)
    }

    /// Open connections, as far as is known.
    pub fn connections(&self) -> u64 {
        match self.doubt {
            0 => self.believed(),
            _ => self.open + self.since,
        }
    }

    /// Connections ever given to it and not taken back.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// How often it said what cannot be.
    pub fn lies(&self) -> u64 {
        self.lies
    }

    /// Whether its word counts.
    pub fn is_believed(&self) -> bool {
        self.doubt == 0
    }

    fn believed(&self) -> u64 {
        let closed = self.closed.saturating_sub(self.closed_then);
        (self.open + self.since).saturating_sub(closed)
    }

    fn doubted(&mut self) {
        self.lies += 1;
        self.doubt = AGREEMENTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(count: u64) -> Load {
        let mut load = Load::default();
        (0..count).for_each(|_| load.give());
        load
    }

    #[test]
    fn what_is_closed_is_no_load_and_what_cannot_be_closed_is_a_lie() {
        let mut load = given(10);
        assert!(load.hear(4, 0, 2));
        assert_eq!((load.value(), load.lies()), (6, 0));
        assert!(!load.hear(9, 0, 2), "eight were taken at most");
        assert_eq!((load.connections(), load.lies(), load.is_believed()), (10, 1, false));
    }

    #[test]
    fn who_says_less_than_the_kernel_counts_is_judged_by_the_kernel() {
        let mut load = given(100);
        load.hear(90, 0, 0);
        assert_eq!(load.value(), 10);
        load.audit(100, 0);
        assert_eq!((load.value(), load.is_believed()), (100, false));
        load.give();
        load.hear(100, 0, 0);
        assert_eq!(load.value(), 101, "its word does not count");
        for _ in 0..AGREEMENTS {
            load.audit(1, 0);
        }
        assert!(load.is_believed());
    }

    #[test]
    fn connections_that_the_stub_lost_sight_of_are_corrected() {
        let mut load = given(50);
        load.audit(0, 0);
        assert_eq!((load.value(), load.is_believed()), (0, true));
    }

    #[test]
    fn weight_is_limited() {
        let mut load = given(1);
        load.hear(0, u32::MAX, 1);
        assert_eq!(load.value(), 1 + u64::from(WEIGHT_MAX));
    }
}
