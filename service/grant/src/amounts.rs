//! An amount that sessions take of something without identity, such as bytes of memory.

use std::collections::HashMap;

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::name::ObjectId;

use crate::quota::{Holder, Quota, Shares};
use crate::refusal::Full;

/// Amounts by session and by share; sessions with nothing are not kept.
#[derive(Clone, Debug)]
pub struct Amounts {
    thing: Thing,
    per_session: u64,
    quota: Quota,
    held: HashMap<ObjectId, u64>,
}

impl Amounts {
    /// Nothing is taken yet.
    pub fn new(thing: Thing, per_session: u64, shares: Shares) -> Self {
        Self { thing, per_session, quota: Quota::new(shares), held: HashMap::new() }
    }

    /// New limits for what is taken from now on; what was taken stays.
    pub fn set_limit(&mut self, per_session: u64, shares: Shares) {
        self.per_session = per_session;
        self.quota.set_shares(shares);
    }

    /// Refuses an amount that a session, its user, its sealed program or the node may not have.
    pub fn check(&self, session: ObjectId, share: Holder, amount: u64) -> Result<(), Full> {
        if self.of(session).saturating_add(amount) > self.per_session {
            return Err(Full::of(self.thing, Side::Session, self.per_session));
        }
        self.quota.check(share, amount).map_err(|it| Full::shared(self.thing, it))
    }

    /// Counts an amount that was checked.
    pub fn take(&mut self, session: ObjectId, share: Holder, amount: u64) {
        *self.held.entry(session).or_default() += amount;
        self.quota.take_anyway(share, amount);
    }

    /// Takes an amount back from a session.
    pub fn give_back(&mut self, session: ObjectId, share: Holder, amount: u64) {
        self.quota.give_back(share, amount);
        if let Some(held) = self.held.get_mut(&session) {
            *held = held.saturating_sub(amount);
            if *held == 0 {
                self.held.remove(&session);
            }
        }
    }

    /// How much a session has.
    pub fn of(&self, session: ObjectId) -> u64 {
        self.held.get(&session).copied().unwrap_or(0)
    }

    /// Sessions that have something.
    pub fn session_count(&self) -> usize {
        self.held.len()
    }

    /// Who has how much.
    pub fn quota(&self) -> (Thing, &Quota) {
        (self.thing, &self.quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_may_be_taken_by_another_and_nobody_is_kept() {
        let (one, two) =
            (ObjectId { index: 1, generation: 1 }, ObjectId { index: 2, generation: 1 });
        let mut amounts = Amounts::new(Thing::ChannelBytes, 10, Shares::whole(15));
        let user = Holder::user(7);
        amounts.check(one, user, 10).unwrap();
        amounts.take(one, user, 10);
        let of_session = Full::of(Thing::ChannelBytes, Side::Session, 10);
        assert_eq!(amounts.check(one, user, 1), Err(of_session));
        let of_user = Full::of(Thing::ChannelBytes, Side::User, 15);
        assert_eq!(amounts.check(two, user, 6), Err(of_user));
        amounts.give_back(one, user, 10);
        assert_eq!(amounts.check(two, user, 6), Ok(()));
        assert_eq!((amounts.session_count(), amounts.quota().1.used_by_all()), (0, 0));
    }
}
