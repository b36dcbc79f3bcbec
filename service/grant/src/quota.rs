//! Shares of what there is only so much of: counted by user, with limits and a reserve.
//!
//! Everything that users share is counted here and nowhere else: a [`Quota`] counts amounts, a
//! [`QuotaTable`] objects. Whoever takes something says for whom ([`Holder`]), and the limits say
//! whether that is too much for a sealed program, for its user, or for the node:
//!
//! ```text
//! 0 ............... all - reserve ..... all - reserve/2 ........... all
//!   everybody takes                newcomers        root and the owner
//! ```
//! So however many users take as much as they may, one that has little yet gets more, and root and
//! the owner of the control plane get what they ask for.

mod table;

pub use table::QuotaTable;

use std::collections::HashMap;

use heliostat_abi::code::Side;

/// A user is a newcomer up to one of so many parts of the reserve.
const NEWCOMER_PARTS: u64 = 16;

/// Whose share something counts against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Holder {
    /// The user.
    pub uid: u32,
    /// One of its sealed programs, by the process that keeps it; none for all else.
    pub sealed: Option<u32>,
    /// Root or the owner of the control plane, and not sealed.
    pub is_trusted: bool,
}

impl Holder {
    /// An ordinary user.
    pub const fn user(uid: u32) -> Self {
        Self { uid, sealed: None, is_trusted: false }
    }

    /// Root, or the owner.
    pub const fn trusted(uid: u32) -> Self {
        Self { uid, sealed: None, is_trusted: true }
    }

    /// A sealed program of this user's: it has a share of its own, and is trusted with nothing.
    pub const fn sealed_by(self, process: u32) -> Self {
        Self { uid: self.uid, sealed: Some(process), is_trusted: false }
    }
}

/// How much there is, and how much of it one may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shares {
    /// On the node.
    pub all: u64,
    /// Of these, kept from those who have much already.
    pub reserve: u64,
    /// Of one user.
    pub user: u64,
    /// Of root and of the owner, who are users too.
    pub trusted: u64,
    /// Of one sealed program.
    pub sealed: u64,
}

impl Shares {
    /// No limit but that of the whole.
    pub const fn whole(all: u64) -> Self {
        Self { all, reserve: 0, user: all, trusted: all, sealed: all }
    }

    /// Whether a holder may have so much more.
    pub fn check(&self, holder: Holder, used: Used, amount: u64) -> Result<(), Exceeded> {
        let fits = |used: u64, side, limit| {
            let is_within = used.saturating_add(amount) <= limit;
            is_within.then_some(()).ok_or(Exceeded { side, limit })
        };
        if holder.sealed.is_some() {
            fits(used.program, Side::SealedProgram, self.sealed)?;
        }
        let of_user = if holder.is_trusted { self.trusted } else { self.user };
        fits(used.user, Side::User, of_user)?;
        fits(used.all, Side::Node, self.ceiling(holder, used.user.saturating_add(amount)))
    }

    /// Up to where a holder may fill the node, who would then have so much.
    fn ceiling(&self, holder: Holder, would_have: u64) -> u64 {
        let newcomer = (self.reserve / NEWCOMER_PARTS).max(1);
        let kept = match holder {
            Holder { is_trusted: true, .. } => 0,
            Holder { sealed: None, .. } if would_have <= newcomer => self.reserve / 2,
            _ => self.reserve,
        };
        self.all.saturating_sub(kept)
    }
}

/// How much is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// By everybody.
    pub all: u64,
    /// By the user, sealed programs included.
    pub user: u64,
    /// By the sealed program.
    pub program: u64,
}

impl Used {
    /// Both together, one counted so many times.
    pub fn plus(self, other: Self, times: u64) -> Self {
        let sum = |one: u64, more: u64| one.saturating_add(more.saturating_mul(times));
        Self {
            all: sum(self.all, other.all),
            user: sum(self.user, other.user),
            program: sum(self.program, other.program),
        }
    }
}

/// A limit is reached: whose, and which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exceeded {
    /// Who has too much.
    pub side: Side,
    /// The limit in force.
    pub limit: u64,
}

/// Amounts taken by users; users with nothing are not kept.
#[derive(Clone, Debug)]
pub struct Quota {
    shares: Shares,
    all: u64,
    users: HashMap<u32, u64>,
    programs: HashMap<(u32, u32), u64>,
}

impl Quota {
    /// Nothing is taken yet.
    pub fn new(shares: Shares) -> Self {
        Self { shares, all: 0, users: HashMap::new(), programs: HashMap::new() }
    }

    /// New limits for what is taken from now on; what was taken stays.
    pub fn set_shares(&mut self, shares: Shares) {
        self.shares = shares;
    }

    /// The limits in force.
    pub fn shares(&self) -> Shares {
        self.shares
    }

    /// Takes an amount for a holder, who gives it back by the same name.
    pub fn take(&mut self, holder: Holder, amount: u64) -> Result<(), Exceeded> {
        self.check(holder, amount)?;
        self.take_anyway(holder, amount);
        Ok(())
    }

    /// Whether a holder may take an amount.
    pub fn check(&self, holder: Holder, amount: u64) -> Result<(), Exceeded> {
        self.shares.check(holder, self.used(holder), amount)
    }

    /// Counts what could not be refused.
    pub fn take_anyway(&mut self, holder: Holder, amount: u64) {
        if amount == 0 {
            return;
        }
        self.all += amount;
        *self.users.entry(holder.uid).or_default() += amount;
        if let Some(process) = holder.sealed {
            *self.programs.entry((holder.uid, process)).or_default() += amount;
        }
    }

    /// Gives back what was taken.
    pub fn give_back(&mut self, holder: Holder, amount: u64) {
        self.all = self.all.saturating_sub(amount);
        lessen(&mut self.users, &holder.uid, amount);
        if let Some(process) = holder.sealed {
            lessen(&mut self.programs, &(holder.uid, process), amount);
        }
    }

    /// How much is taken, by a holder and by all.
    pub fn used(&self, holder: Holder) -> Used {
        let of_program = |process| self.programs.get(&(holder.uid, process)).copied();
        Used {
            all: self.all,
            user: self.users.get(&holder.uid).copied().unwrap_or(0),
            program: holder.sealed.and_then(of_program).unwrap_or(0),
        }
    }

    /// How much everybody has together.
    pub fn used_by_all(&self) -> u64 {
        self.all
    }

    /// Every user that has something, in no order.
    pub fn users(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.users.iter().map(|(uid, used)| (*uid, *used))
    }
}

fn lessen<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u64>, key: &K, amount: u64) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(amount);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares = Shares { all: 320, reserve: 64, user: 160, trusted: 300, sealed: 40 };

    fn fill(quota: &mut Quota, holder: Holder) -> (u64, Exceeded) {
        let mut taken = 0;
        loop {
            match quota.take(holder, 1) {
                Ok(()) => taken += 1,
                Err(exceeded) => return (taken, exceeded),
            }
        }
    }

    #[test]
    fn a_user_has_its_share_and_gets_it_again() {
        let mut quota = Quota::new(SHARES);
        let (taken, exceeded) = fill(&mut quota, Holder::user(1));
        assert_eq!((taken, exceeded), (160, Exceeded { side: Side::User, limit: 160 }));
        quota.give_back(Holder::user(1), 160);
        assert_eq!(quota.users().count(), 0);
        assert_eq!(fill(&mut quota, Holder::user(1)).0, 160);
    }

    #[test]
    fn users_who_take_all_they_may_leave_some_for_newcomers_and_more_for_the_trusted() {
        let mut quota = Quota::new(SHARES);
        assert_eq!(fill(&mut quota, Holder::user(1)).0, 160);
        let (taken, exceeded) = fill(&mut quota, Holder::user(2));
        assert_eq!((taken, exceeded), (96, Exceeded { side: Side::Node, limit: 256 }));
        // Eight newcomers have their first four each, and the ninth has none.
        (3..11).for_each(|uid| assert_eq!(fill(&mut quota, Holder::user(uid)).0, 4));
        assert_eq!(fill(&mut quota, Holder::user(11)).0, 0);
        assert_eq!(fill(&mut quota, Holder::trusted(0)).0, 32);
        assert_eq!(quota.used_by_all(), 320);
    }

    #[test]
    fn a_sealed_program_has_a_part_of_its_users_share_and_nothing_of_the_reserve() {
        let mut quota = Quota::new(SHARES);
        let (user, one) = (Holder::user(1), Holder::user(1).sealed_by(7));
        let (taken, exceeded) = fill(&mut quota, one);
        assert_eq!((taken, exceeded), (40, Exceeded { side: Side::SealedProgram, limit: 40 }));
        assert_eq!(fill(&mut quota, Holder::user(1).sealed_by(8)).0, 40);
        assert_eq!(fill(&mut quota, user).0, 80);
        assert_eq!(quota.used(one), Used { all: 160, user: 160, program: 40 });
        let of_root = Holder::trusted(0).sealed_by(9);
        fill(&mut quota, Holder::user(2));
        assert_eq!(fill(&mut quota, of_root).0, 0);
    }

    #[test]
    fn a_limit_that_sank_below_what_is_taken_refuses_and_forgets_nothing() {
        let mut quota = Quota::new(SHARES);
        fill(&mut quota, Holder::user(1));
        quota.set_shares(Shares { user: 10, ..SHARES });
        assert!(quota.take(Holder::user(1), 1).is_err());
        quota.give_back(Holder::user(1), 151);
        assert!(quota.take(Holder::user(1), 1).is_ok());
    }
}
