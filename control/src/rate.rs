//! Token buckets: how often one user, or one sealed program, may connect to the control plane.
//!
//! A bucket holds at most `burst` tokens and gains `per_second`; a connection takes one. Time is
//! the caller's monotonic nanoseconds. Buckets of users that are full again are forgotten, so
//! the table holds only users that connected lately and never more than `USERS_MAX`.

use std::collections::HashMap;
use std::hash::Hash;

/// Users remembered at once. Beyond it new users are let through only as full buckets leave.
pub const USERS_MAX: usize = 4096;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// How fast and how much at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Tokens gained per second.
    pub per_second: u32,
    /// Most tokens held.
    pub burst: u32,
}

impl Rate {
    /// A part of it, and at least one.
    pub fn percent(self, part: u64) -> Rate {
        let of = |whole: u32| (u64::from(whole).saturating_mul(part) / 100).max(1);
        let of = |whole| u32::try_from(of(whole)).unwrap_or(u32::MAX);
        Rate { per_second: of(self.per_second), burst: of(self.burst) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Tokens times nanoseconds per second, so that no fraction is lost.
    level: u64,
    seen_ns: u64,
}

/// One bucket for each `K`, by default a user.
#[derive(Clone, Debug)]
pub struct Buckets<K = u32> {
    rate: Rate,
    users: HashMap<K, Bucket>,
}

impl<K: Copy + Eq + Hash> Buckets<K> {
    /// Full buckets for everybody.
    pub fn new(rate: Rate) -> Self {
        Self { rate, users: HashMap::new() }
    }

    /// A new rate; buckets keep what they hold, up to the new burst.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// Takes a token of `uid`'s; false when there is none.
    pub fn take(&mut self, uid: K, now_ns: u64) -> bool {
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&uid) {
            self.forget_full(now_ns);
            if self.users.len() >= USERS_MAX {
                return false;
            }
        }
        let full = u64::from(self.rate.burst) * NS_PER_SECOND;
        let bucket = self.users.entry(uid).or_insert(Bucket { level: full, seen_ns: now_ns });
        bucket.level = refilled(*bucket, self.rate, now_ns);
        bucket.seen_ns = now_ns;
        let enough = bucket.level >= NS_PER_SECOND;
        if enough {
            bucket.level -= NS_PER_SECOND;
        }
        enough
    }

    /// Puts a token back that was taken for nothing.
    pub fn give_back(&mut self, uid: K) {
        let full = u64::from(self.rate.burst) * NS_PER_SECOND;
        if let Some(bucket) = self.users.get_mut(&uid) {
            bucket.level = bucket.level.saturating_add(NS_PER_SECOND).min(full);
        }
    }

    fn forget_full(&mut self, now_ns: u64) {
        let rate = self.rate;
        let full = u64::from(rate.burst) * NS_PER_SECOND;
        self.users.retain(|_, bucket| refilled(*bucket, rate, now_ns) < full);
    }
}

fn refilled(bucket: Bucket, rate: Rate, now_ns: u64) -> u64 {
    let full = u64::from(rate.burst) * NS_PER_SECOND;
    let passed = now_ns.saturating_sub(bucket.seen_ns);
    bucket.level.saturating_add(passed.saturating_mul(u64::from(rate.per_second))).min(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 2, burst: 3 };

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let mut buckets = Buckets::<u32>::new(RATE);
        let taken: Vec<_> = (0..4).map(|_| buckets.take(1, 0)).collect();
        assert_eq!(taken, [true, true, true, false]);
        assert!(!buckets.take(1, NS_PER_SECOND / 2 - 1));
        assert!(buckets.take(1, NS_PER_SECOND / 2));
    }

    #[test]
    fn a_token_that_is_given_back_may_be_taken_again_and_the_burst_stays() {
        let mut buckets = Buckets::<u32>::new(RATE);
        assert!(buckets.take(1, 0));
        (0..9).for_each(|_| buckets.give_back(1));
        let taken: Vec<_> = (0..4).map(|_| buckets.take(1, 0)).collect();
        assert_eq!(taken, [true, true, true, false]);
        assert_eq!(RATE.percent(50), Rate { per_second: 1, burst: 1 });
    }

    #[test]
    fn users_do_not_share_a_bucket() {
        let mut buckets = Buckets::<u32>::new(RATE);
        (0..3).for_each(|_| assert!(buckets.take(1, 0)));
        assert!(buckets.take(2, 0));
    }

    #[test]
    fn the_table_of_users_is_bounded_and_heals() {
        let mut buckets = Buckets::<u32>::new(RATE);
        (0..USERS_MAX as u32).for_each(|uid| assert!(buckets.take(uid, 0)));
        assert!(!buckets.take(99_999, 0));
        assert!(buckets.take(99_999, NS_PER_SECOND));
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_adds_nothing() {
        let mut buckets = Buckets::<u32>::new(RATE);
        (0..3).for_each(|_| assert!(buckets.take(1, 100)));
        assert!(!buckets.take(1, 50));
    }
}
