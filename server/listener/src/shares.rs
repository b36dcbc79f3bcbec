//! What the control plane holds for listeners, counted by whose it is, of all listeners together.
//!
//! The lock here is held for a sum, never over a call of the kernel's: each listener has a thread of
//! its own, and none may wait for another.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_service_grant::{Exceeded, Holder, Quota, Shares, Used};

/// The counts.
#[derive(Clone)]
pub struct HeldShares(Arc<Mutex<Quota>>);

/// So much is counted as long as this lasts.
pub struct Counted {
    held: HeldShares,
    holder: Holder,
    amount: u64,
}

impl HeldShares {
    /// Nothing is held yet.
    pub fn new(shares: Shares) -> HeldShares {
        HeldShares(Arc::new(Mutex::new(Quota::new(shares))))
    }

    /// New limits, for what comes from now on.
    pub fn set_shares(&self, shares: Shares) {
        self.quota().set_shares(shares);
    }

    /// How much is held.
    pub fn used(&self, holder: Holder) -> Used {
        self.quota().used(holder)
    }

    /// The limits in force.
    pub(crate) fn shares(&self) -> Shares {
        self.quota().shares()
    }

    /// Counts an amount in the place of an earlier one.
    pub(crate) fn change(&self, holder: Holder, before: u64, now: u64) {
        let mut quota = self.quota();
        quota.give_back(holder, before);
        quota.take_anyway(holder, now);
    }

    /// Whether there is room for one more beside what waits elsewhere.
    pub(crate) fn check(&self, holder: Holder, elsewhere: Used) -> Result<(), Exceeded> {
        let quota = self.quota();
        quota.shares().check(holder, quota.used(holder).plus(elsewhere, 1), 1)
    }

    /// Counts what a thread is still to be told of.
    pub(crate) fn count(&self, holder: Holder, amount: u64) -> Counted {
        self.change(holder, 0, amount);
        Counted { held: self.clone(), holder, amount }
    }

    fn quota(&self) -> MutexGuard<'_, Quota> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.held.change(self.holder, self.amount, 0);
    }
}
