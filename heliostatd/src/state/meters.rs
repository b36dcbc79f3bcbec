//! The meters of rates: of one session, or of several together.
//!
//! A meter is kept while somebody uses it, and afterwards until what was taken from it is paid for:
//! who closes everything and comes again owes what it owed. A session's own go with its connection,
//! and not with a delegation of it. A configuration that is read again makes new ones; what is open
//! keeps its own.

use std::collections::HashMap;

use heliostat_abi::name::ObjectId;
use heliostat_control::rates::{Holds, Per};
use heliostat_service_grant::{Holder, Meter};

/// Meters that nobody uses and that are not paid for: beyond it those of users are forgotten.
const UNPAID_MAX: usize = 65_536;
/// Meters among which none is looked for that may be forgotten.
const FEW: usize = 64;

/// Who has a bucket together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum BucketOwner {
    /// One session, by its connection.
    Session(ObjectId),
    /// All sessions of a user, whose numbers for others are its own.
    User(u32),
    /// All users of another node.
    Node(u64),
    /// All whom the rate is about.
    Rule,
}

/// The meters, by rate with its place in the configuration.
#[derive(Default)]
pub struct Meters {
    by_rate: HashMap<(Holds, BucketOwner), Meter>,
    /// With as many, those that may be forgotten are looked for.
    sweep_at: usize,
}

impl Meters {
    /// The meter of a rate, for a session of a holder's.
    pub fn of(&mut self, rate: Holds, session: ObjectId, holder: Holder, now_ns: u64) -> Meter {
        let whose = match rate.per {
            Per::Session => BucketOwner::Session(session),
            Per::User => BucketOwner::User(holder.uid),
            // Only rates of other nodes have it.
            Per::Rule | Per::Node => BucketOwner::Rule,
        };
        self.of_owner(rate, whose, now_ns)
    }

    /// The meter of a rate, for a user of another node, which is this session.
    pub fn of_peer(
        &mut self,
        rate: Holds,
        session: ObjectId,
        (node, user): (u64, u32),
        now_ns: u64,
    ) -> Meter {
        let whose = match rate.per {
            Per::Session => BucketOwner::Session(session),
            Per::User => BucketOwner::User(user),
            Per::Node => BucketOwner::Node(node),
            Per::Rule => BucketOwner::Rule,
        };
        self.of_owner(rate, whose, now_ns)
    }

    fn of_owner(&mut self, rate: Holds, whose: BucketOwner, now_ns: u64) -> Meter {
        if self.by_rate.len() >= self.sweep_at.max(FEW) {
            self.forget_paid(now_ns);
        }
        let new = || Meter::new(rate.per_second.operations, rate.per_second.bytes);
        self.by_rate.entry((rate, whose)).or_insert_with(new).clone()
    }

    /// Forgets what only this session had: it has ended.
    pub fn end(&mut self, session: ObjectId) {
        self.by_rate.retain(|(_, whose), _| *whose != BucketOwner::Session(session));
    }

    /// Forgets the meters that nobody uses and that are paid for.
    fn forget_paid(&mut self, now_ns: u64) {
        self.by_rate.retain(|_, meter| meter.sharers() > 1 || !meter.is_full(now_ns));
        let unpaid = self.by_rate.values().filter(|meter| meter.sharers() == 1).count();
        if unpaid > UNPAID_MAX {
            let is_users = |whose: &BucketOwner| matches!(whose, BucketOwner::User(_));
            self.by_rate.retain(|(_, whose), meter| meter.sharers() > 1 || !is_users(whose));
        }
        self.sweep_at = 2 * self.by_rate.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_control::rates::PerSecond;

    const SECOND: u64 = 1_000_000_000;

    fn rate(place: usize, per: Per) -> Holds {
        Holds { place, per, per_second: PerSecond { operations: 1, bytes: 0 } }
    }

    fn session(index: u32) -> ObjectId {
        ObjectId { index, generation: 1 }
    }

    /// Takes what this session's meter has: whether there was something.
    fn takes(meters: &mut Meters, rate: Holds, (its, uid): (u32, u32)) -> bool {
        meters.of(rate, session(its), Holder::user(uid), SECOND).take(0, SECOND).is_ok()
    }

    #[test]
    fn sessions_have_a_meter_together_as_the_rate_says() {
        let mut meters = Meters::default();
        let (its, user, rule) = (rate(1, Per::Session), rate(2, Per::User), rate(3, Per::Rule));
        let mut both = |rate, second| {
            assert!(takes(&mut meters, rate, (1, 7)), "{rate:?} is new");
            takes(&mut meters, rate, second)
        };
        assert!(both(its, (2, 7)), "another session");
        assert!(!both(user, (2, 7)) && !both(rule, (2, 8)), "the same user, and everybody");
        assert!(takes(&mut meters, user, (3, 8)), "another user");
        assert!(takes(&mut meters, rate(4, Per::Rule), (1, 7)), "another rate");
    }

    #[test]
    fn a_session_that_asks_again_has_the_same_meter_until_its_end() {
        let mut meters = Meters::default();
        let its = rate(1, Per::Session);
        assert!(takes(&mut meters, its, (1, 7)) && takes(&mut meters, its, (2, 7)));
        assert!(!takes(&mut meters, its, (1, 7)), "what it took before is not forgotten");
        meters.end(session(1));
        assert!(takes(&mut meters, its, (1, 7)) && !takes(&mut meters, its, (2, 7)));
    }

    #[test]
    fn a_meter_that_nobody_uses_is_forgotten_when_it_is_paid_for() {
        let mut meters = Meters::default();
        let kept = meters.of(rate(1, Per::Rule), session(1), Holder::user(7), SECOND);
        (2..=FEW).for_each(|place| assert!(takes(&mut meters, rate(place, Per::Rule), (1, 7))));
        assert!(takes(&mut meters, rate(FEW + 1, Per::Rule), (1, 7)));
        assert_eq!(meters.by_rate.len(), FEW + 1, "none is paid for yet");
        assert!(!takes(&mut meters, rate(2, Per::Rule), (1, 7)));
        meters.forget_paid(9 * SECOND);
        assert_eq!(meters.by_rate.len(), 1, "the one in use is left");
        assert_eq!(kept.sharers(), 2);
    }
}
