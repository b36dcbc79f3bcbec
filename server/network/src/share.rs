//! How many connections are carried for whom: one table for all loops.
//!
//! A loop counts a connection from its hand to its end, the time in which its peer takes what a program
//! that is gone has left included. Who has its share is told so, and the connection is the kernel's.

use std::collections::HashMap;

use heliostat_base::lock::Lock;
use heliostat_service_grant::{Exceeded, Holder, Quota, Shares, Used};

/// Users of whom is kept what was refused them; of others it is forgotten.
const REFUSED_USERS_MAX: usize = 1024;

/// What a user was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedShare {
    /// The limit that was in the way at last.
    pub exceeded: Exceeded,
    /// How many connections, so far.
    pub count: u64,
}

/// Who has how many.
pub struct CarriedShare(Lock<State>);

struct State {
    quota: Quota,
    refused: HashMap<u32, RefusedShare>,
}

impl CarriedShare {
    /// Nothing is carried yet.
    pub fn new(shares: Shares) -> Self {
        Self(Lock::new(State { quota: Quota::new(shares), refused: HashMap::new() }))
    }

    /// New limits for connections to come; what is carried stays.
    pub fn set(&self, shares: Shares) {
        self.0.lock().quota.set_shares(shares);
    }

    /// How many there are.
    pub fn used(&self, holder: Holder) -> Used {
        self.0.lock().quota.used(holder)
    }

    /// Everybody's, as it is now.
    pub fn quota(&self) -> Quota {
        self.0.lock().quota.clone()
    }

    /// What a user was refused, if it was.
    pub fn refused(&self, uid: u32) -> Option<RefusedShare> {
        self.0.lock().refused.get(&uid).copied()
    }

    /// Counts one more, where its holder may have it.
    pub(crate) fn take(&self, holder: Holder) -> bool {
        let mut state = self.0.lock();
        let taken = state.quota.take(holder, 1);
        if let Err(exceeded) = taken {
            state.note(holder.uid, exceeded);
        }
        taken.is_ok()
    }

    /// One has ended.
    pub(crate) fn give_back(&self, holder: Holder) {
        self.0.lock().quota.give_back(holder, 1);
    }
}

impl State {
    fn note(&mut self, uid: u32, exceeded: Exceeded) {
        if self.refused.len() >= REFUSED_USERS_MAX && !self.refused.contains_key(&uid) {
            return;
        }
        let refused = self.refused.entry(uid).or_insert(RefusedShare { exceeded, count: 0 });
        *refused = RefusedShare { exceeded, count: refused.count.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use heliostat_abi::code::Side;

    use super::*;

    #[test]
    fn what_was_refused_is_kept_by_user_and_not_without_end() {
        let share = CarriedShare::new(Shares { user: 1, ..Shares::whole(3) });
        assert!(share.take(Holder::user(1)) && share.refused(1).is_none());
        assert!(!share.take(Holder::user(1)) && !share.take(Holder::user(1)));
        let exceeded = Exceeded { side: Side::User, limit: 1 };
        assert_eq!(share.refused(1), Some(RefusedShare { exceeded, count: 2 }));
        share.give_back(Holder::user(1));
        assert_eq!(share.used(Holder::user(1)), Used::default());
        share.set(Shares::whole(0));
        (0..2000).for_each(|uid| assert!(!share.take(Holder::user(uid))));
        assert_eq!(share.0.lock().refused.len(), REFUSED_USERS_MAX);
    }
}
