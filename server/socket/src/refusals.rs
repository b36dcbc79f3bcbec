//! Addresses that a session was refused, and that the control plane has not heard of yet: one at a time.
//!
//! A session asks faster than its refusals are written down, and loops are many: what was refused
//! while one is under way is counted, and its address left out.

use std::sync::Arc;

use heliostat_base::sync::{AtomicU64, Ordering::Relaxed};

/// Refusals of one session since the last that the control plane has taken.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<AtomicU64>);

impl Refusals {
    /// One more; whether it is to be told, being the first.
    pub(crate) fn add(&self) -> bool {
        self.0.fetch_add(1, Relaxed) == 0
    }

    /// The control plane has heard of one: how many were left out meanwhile.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Relaxed).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_told_and_the_others_are_counted_until_it_is_heard() {
        let refusals = Refusals::default();
        assert_eq!([(); 4].map(|()| refusals.add()), [true, false, false, false]);
        assert_eq!((refusals.take(), refusals.add(), refusals.take()), (3, true, 0));
    }
}
