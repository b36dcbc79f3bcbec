//! A token bucket: how many operations or bytes a session may have in a time.
//!
//! What is asked for may be larger than the bucket; then it is let through when the bucket is not
//! in debt, and the debt is paid off before the next.

const NS_PER_SECOND: u128 = 1_000_000_000;

/// One bucket; a rate of zero is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    per_second: u64,
    burst: u64,
    /// Tokens times nanoseconds per second, so that no fraction is lost; negative is debt.
    level: i128,
    seen_ns: u64,
}

impl Bucket {
    /// A full bucket. `burst` is at least one second's worth of a hundredth.
    pub fn new(per_second: u64, burst: u64) -> Bucket {
        let burst = burst.max(per_second / 100).max(1);
        let level = (u128::from(burst) * NS_PER_SECOND) as i128;
        Bucket { per_second, burst, level, seen_ns: 0 }
    }

    /// Takes tokens, or says at which time to ask again.
    pub fn take(&mut self, tokens: u64, now_ns: u64) -> Result<(), u64> {
        if self.per_second == 0 {
            return Ok(());
        }
        self.refill(now_ns);
        if self.level <= 0 {
            let missing = self.level.unsigned_abs() + 1;
            let wait_ns = missing.div_ceil(u128::from(self.per_second));
            return Err(now_ns.saturating_add(wait_ns.min(u64::MAX.into()) as u64));
        }
        self.level -= (u128::from(tokens) * NS_PER_SECOND) as i128;
        Ok(())
    }

    /// Gives back what was taken for something that was not done.
    pub fn give_back(&mut self, tokens: u64) {
        self.level += (u128::from(tokens) * NS_PER_SECOND) as i128;
    }

    fn refill(&mut self, now_ns: u64) {
        let passed = u128::from(now_ns.saturating_sub(self.seen_ns));
        self.seen_ns = self.seen_ns.max(now_ns);
        let full = (u128::from(self.burst) * NS_PER_SECOND) as i128;
        let gained = passed.saturating_mul(u128::from(self.per_second));
        let gained = i128::try_from(gained).unwrap_or(i128::MAX);
        self.level = self.level.saturating_add(gained).min(full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn over_a_long_time_the_rate_is_kept_and_the_burst_comes_on_top() {
        let (mut bucket, mut taken, mut now) = (Bucket::new(1000, 50), 0, 7);
        while now < 10 * SECOND {
            match bucket.take(1, now) {
                Ok(()) => taken += 1,
                Err(later) => {
                    assert!(later > now);
                    now = later;
                }
            }
        }
        assert!((10_000..=10_051).contains(&taken), "{taken}");
    }

    #[test]
    fn more_than_the_bucket_holds_is_let_through_and_paid_off() {
        let mut bucket = Bucket::new(100, 10);
        assert_eq!(bucket.take(110, SECOND), Ok(()));
        let later = bucket.take(1, SECOND).unwrap_err();
        assert!((2 * SECOND..=2 * SECOND + 1).contains(&later), "{later}");
        assert_eq!(bucket.take(1, later), Ok(()));
    }

    #[test]
    fn no_rate_is_no_limit_and_what_was_given_back_can_be_taken() {
        let mut bucket = Bucket::new(0, 0);
        assert!((0..1000).all(|_| bucket.take(u64::MAX, 0).is_ok()));
        let mut bucket = Bucket::new(1, 1);
        assert_eq!(bucket.take(1, 0), Ok(()));
        assert!(bucket.take(1, 0).is_err());
        bucket.give_back(1);
        assert_eq!(bucket.take(1, 0), Ok(()));
    }
}
