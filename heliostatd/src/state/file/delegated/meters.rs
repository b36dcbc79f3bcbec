//! The meters of rates that several sessions have together.
//!
//! A meter lives as long as somebody uses it, so there are no more of them than sessions and open
//! files. A configuration that is read again makes new ones; what is open keeps its own.

use std::collections::HashMap;

use heliostat_control::rates::{Holds, Per};
use heliostat_service_grant::Meter;

/// Which meter: its rate with its place in the configuration, and the user where each has one.
type Key = (Holds, Option<u32>);

/// The meters in use.
#[derive(Default)]
pub struct Meters(HashMap<Key, Meter>);

impl Meters {
    /// The meter of a rate, for a session of user `uid`.
    pub fn of(&mut self, rate: Holds, uid: u32) -> Meter {
        let new = || Meter::new(rate.per_second.operations, rate.per_second.bytes);
        let user = match rate.per {
            Per::Session => return new(),
            Per::User => Some(uid),
            Per::Rule => None,
        };
        // Those that only this table has are forgotten.
        self.0.retain(|_, meter| meter.sharers() > 1);
        self.0.entry((rate, user)).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_control::rates::PerSecond;

    fn rate(place: usize, per: Per) -> Holds {
        Holds { place, per, per_second: PerSecond { operations: 1, bytes: 0 } }
    }

    fn is_one(meters: &mut Meters, first: (Holds, u32), second: (Holds, u32)) -> bool {
        let (first, second) = (meters.of(first.0, first.1), meters.of(second.0, second.1));
        first.take(0, 1 << 40).unwrap();
        second.take(0, 1 << 40).is_err()
    }

    #[test]
    fn sessions_have_a_meter_together_as_the_rate_says() {
        let mut meters = Meters::default();
        let (session, user, rule) = (rate(1, Per::Session), rate(2, Per::User), rate(3, Per::Rule));
        assert!(!is_one(&mut meters, (session, 7), (session, 7)));
        assert!(is_one(&mut meters, (user, 7), (user, 7)));
        assert!(!is_one(&mut meters, (user, 7), (user, 8)));
        assert!(is_one(&mut meters, (rule, 7), (rule, 8)));
        assert!(!is_one(&mut meters, (rule, 7), (rate(4, Per::Rule), 7)));
    }

    #[test]
    fn a_meter_that_nobody_uses_is_forgotten() {
        let mut meters = Meters::default();
        let kept = meters.of(rate(1, Per::Rule), 7);
        drop(meters.of(rate(2, Per::Rule), 7));
        drop(meters.of(rate(3, Per::Rule), 7));
        assert_eq!(meters.0.len(), 2, "the kept one and the last");
        drop(kept);
        drop(meters.of(rate(3, Per::Rule), 7));
        assert_eq!(meters.0.len(), 1);
    }
}
