//! How many of something each user has, against one limit.

use std::collections::HashMap;

/// A count per user; users with nothing are not kept.
#[derive(Clone, Debug, Default)]
pub struct Tally(HashMap<u32, usize>);

impl Tally {
    /// Counts one more for `uid`, unless that would pass `limit`.
    pub fn add(&mut self, uid: u32, limit: usize) -> bool {
        if self.of(uid) >= limit {
            return false;
        }
        *self.0.entry(uid).or_default() += 1;
        true
    }

    /// Counts one less.
    pub fn remove(&mut self, uid: u32) {
        if let Some(count) = self.0.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&uid);
            }
        }
    }

    /// The count of a user.
    pub fn of(&self, uid: u32) -> usize {
        self.0.get(&uid).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_at_the_limit_is_refused_until_one_is_removed() {
        let mut tally = Tally::default();
        assert!(tally.add(1, 1));
        assert!(!tally.add(1, 1));
        assert!(tally.add(2, 1));
        tally.remove(1);
        tally.remove(1);
        assert!(tally.add(1, 1));
    }
}
