//! A token bucket for each user, or for each sealed program, that did something lately.
//!
//! Buckets that are full again are forgotten, so the table never holds more than `USERS_MAX`.

use std::collections::HashMap;
use std::hash::Hash;

use crate::bucket::{Bucket, Rate};

/// Users remembered at once. Beyond it new users are let through only as full buckets leave.
pub const USERS_MAX: usize = 4096;

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

    /// Takes a token of a user's; false when there is none.
    pub fn take(&mut self, user: K, now_ns: u64) -> bool {
        let rate = self.rate;
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&user) {
            self.users.retain(|_, bucket| !bucket.is_full(rate, now_ns));
            if self.users.len() >= USERS_MAX {
                return false;
            }
        }
        let bucket = self.users.entry(user).or_insert(Bucket::full(rate, now_ns));
        bucket.take(rate, 1, now_ns)
    }

    /// Puts a token back that was taken for nothing.
    pub fn give_back(&mut self, user: K) {
        if let Some(bucket) = self.users.get_mut(&user) {
            bucket.give_back(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS_PER_SECOND: u64 = 1_000_000_000;

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
