//! How much may be done in a time, by one session or by several on different server loops.
//!
//! ```text
//!            paid up to
//! ---------------|---------> time     take: paid_up_to = max(paid_up_to, now - BURST) + cost
//!      now ^ refused   ^ now granted
//! ```
//!
//! The generic cell rate algorithm (ATM Forum, Traffic Management 4.0): one word says until when
//! what was taken is paid for. It may lie ahead by what one take costs, so something larger than
//! the burst is let through, and whoever comes next waits until it is paid.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Parts of a nanosecond that are counted: the word lasts nine years.
const PARTS_PER_NS: u64 = 64;
/// What may be taken at once after a pause: a tenth of a second's worth.
const BURST_NS: u64 = 100_000_000;

/// A rate of one thing; 0 in a second is no limit.
#[derive(Debug, Default)]
struct Rate {
    per_second: u64,
    paid_up_to: AtomicU64,
}

impl Rate {
    fn cost(&self, tokens: u64) -> u64 {
        let parts = u128::from(tokens) * 1_000_000_000 * u128::from(PARTS_PER_NS);
        let cost = parts.div_ceil(u128::from(self.per_second.max(1)));
        u64::try_from(cost).unwrap_or(u64::MAX)
    }

    /// Takes tokens, or says at which time in nanoseconds to ask again.
    #[inline]
    fn take(&self, tokens: u64, now_ns: u64) -> Result<(), u64> {
        if self.per_second == 0 {
            return Ok(());
        }
        let (now, cost) = (now_ns.saturating_mul(PARTS_PER_NS), self.cost(tokens));
        let earliest = now.saturating_sub(BURST_NS * PARTS_PER_NS);
        let paid = |paid: u64| (paid <= now).then(|| paid.max(earliest).saturating_add(cost));
        // No memory is passed by it: a take orders nothing but takes of the same word.
        match self.paid_up_to.fetch_update(Relaxed, Relaxed, paid) {
            Ok(_) => Ok(()),
            Err(until) => Err((until / PARTS_PER_NS).saturating_add(1)),
        }
    }

    /// Whether it would let through at a time what a new one does.
    fn is_full(&self, now_ns: u64) -> bool {
        let paid_ns = self.paid_up_to.load(Relaxed).div_ceil(PARTS_PER_NS);
        self.per_second == 0 || paid_ns.saturating_add(BURST_NS) <= now_ns || paid_ns == 0
    }

    #[inline]
    fn give_back(&self, tokens: u64) {
        if self.per_second > 0 {
            let less = |paid: u64| Some(paid.saturating_sub(self.cost(tokens)));
            let _ = self.paid_up_to.fetch_update(Relaxed, Relaxed, less);
        }
    }
}

/// A rate of operations and one of bytes, shared by whoever has a copy.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<[Rate; 2]>);

impl Meter {
    /// Rates in a second; 0 is no limit.
    pub fn new(operations: u64, bytes: u64) -> Meter {
        Meter(Arc::new(
            [operations, bytes]
                .map(|per_second| Rate { per_second, paid_up_to: AtomicU64::new(0) }),
        ))
    }

    /// Takes one operation of so many bytes, or says at which time to ask again.
    #[inline]
    pub fn take(&self, bytes: u64, now_ns: u64) -> Result<(), u64> {
        let [operations, of_bytes] = &*self.0;
        operations.take(1, now_ns)?;
        of_bytes.take(bytes, now_ns).inspect_err(|_| operations.give_back(1))
    }

    /// Gives back what was taken for something that was not done.
    #[inline]
    pub fn give_back(&self, bytes: u64) {
        let [operations, of_bytes] = &*self.0;
        operations.give_back(1);
        of_bytes.give_back(bytes);
    }

    /// Whether everything that was taken is paid for at a time, so that a new meter would be the same.
    pub fn is_full(&self, now_ns: u64) -> bool {
        self.0.iter().all(|rate| rate.is_full(now_ns))
    }

    /// How many share it, this copy included.
    pub fn sharers(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn over_a_long_time_the_rate_is_kept_and_the_burst_comes_on_top() {
        let (meter, mut taken, mut now) = (Meter::new(1000, 0), 0, 7);
        while now < 10 * SECOND {
            match meter.take(1, now) {
                Ok(()) => taken += 1,
                Err(later) => {
                    assert!(later > now);
                    now = later;
                }
            }
        }
        assert!((9_990..=10_102).contains(&taken), "{taken}");
    }

    #[test]
    fn more_than_the_burst_is_let_through_and_paid_off() {
        let meter = Meter::new(0, 100);
        assert_eq!(meter.take(110, SECOND), Ok(()));
        let later = meter.take(1, SECOND).unwrap_err();
        assert!((2 * SECOND..=2 * SECOND + SECOND / 9).contains(&later), "{later}");
        assert_eq!(meter.take(1, later), Ok(()));
    }

    #[test]
    fn no_rate_is_no_limit_and_what_was_given_back_can_be_taken() {
        let meter = Meter::new(0, 0);
        assert!((0..1000).all(|_| meter.take(u64::MAX, 0).is_ok()));
        let meter = Meter::new(1, 1);
        assert_eq!(meter.take(1, SECOND), Ok(()));
        assert!(meter.take(1, SECOND).is_err());
        meter.give_back(1);
        assert_eq!(meter.take(1, SECOND), Ok(()));
    }

    #[test]
    fn a_meter_is_full_once_it_is_paid_for_and_may_let_a_burst_through_again() {
        let meter = Meter::new(0, 100);
        assert!(meter.is_full(0) && meter.is_full(SECOND));
        assert_eq!(meter.take(110, SECOND), Ok(()));
        let later = meter.take(1, SECOND).unwrap_err();
        assert!(!meter.is_full(SECOND) && !meter.is_full(later));
        assert!(meter.is_full(later + BURST_NS));
        assert!(Meter::new(0, 0).is_full(0));
    }

    #[test]
    fn an_operation_whose_bytes_are_refused_takes_no_token() {
        let meter = Meter::new(2, 1);
        assert_eq!(meter.take(5, SECOND), Ok(()));
        assert!((0..9).all(|_| meter.take(1, SECOND + SECOND / 2).is_err()));
        assert_eq!(meter.0[0].take(1, SECOND + SECOND / 2), Ok(()));
    }

    #[test]
    fn threads_that_share_a_meter_have_its_rate_together() {
        const TAKES: u64 = 25_000;
        let (meter, clock) = (Meter::new(50_000, 0), AtomicU64::new(SECOND));
        let take = || meter.take(1, clock.fetch_add(10_000, Relaxed)).is_ok();
        let taken: usize = std::thread::scope(|scope| {
            let some = || (0..TAKES).filter(|_| take()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(some)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).sum()
        });
        // One second of the rate, and the burst; a thread that was held up sees an old time.
        assert!((45_000..=55_001).contains(&taken), "{taken}");
    }
}
