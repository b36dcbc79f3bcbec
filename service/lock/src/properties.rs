//! Whatever sessions do in whatever order, the lock service keeps its promises.

use heliostat_abi::lock::{Claim, Event, Outcome};
use proptest::prelude::*;

use crate::steps::Step;
use crate::world::World;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = || (0..6u32, any::<usize>());
    let step = prop_oneof![
        3 => (0..6u32, 0..5u32).prop_map(|(session, name)| Step::Open { session, name }),
        1 => one().prop_map(|(session, which)| Step::Close { session, which }),
        8 => (one(), any::<bool>(), 1..4u32, 0..6u32).prop_map(
            |((session, which), shared, permits, wait)| {
                Step::Acquire { session, which, shared, permits, wait: wait > 0 }
            }),
        3 => one().prop_map(|(session, which)| Step::Arrive { session, which }),
        6 => (one(), any::<bool>()).prop_map(
            |((session, which), untouched)| Step::Release { session, which, untouched }),
        2 => one().prop_map(|(session, which)| Step::Cancel { session, which }),
        1 => one().prop_map(|(session, which)| Step::Reset { session, which }),
        6 => (0..6u32).prop_map(|session| Step::Next { session }),
        1 => (0..6u32).prop_map(|session| Step::End { session }),
        1 => (0..8u32).prop_map(|session| Step::Revoke { session }),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::schedules(), ..ProptestConfig::default() })]

    #[test]
    fn whatever_sessions_do(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            let before = world.service.next_token;
            world.take(step);
            prop_assert!(world.service.next_token >= before);
            prop_assert!(world.last_token < world.service.next_token);
            world.check();
        }
        world.end_all();
    }

    /// Of claims that all wait from the beginning, each is granted in its turn with a larger token.
    #[test]
    fn tokens_grow_in_the_order_of_claims(permits in prop::collection::vec(1..4u32, 1..6)) {
        let mut world = World::new();
        let mut effects = Vec::new();
        (0..6).for_each(|session| world.open(session, 2));
        let handle = |world: &World, session| world.handle(session, 0).unwrap().0;
        let asker = world.asker(0);
        let all = Claim::Permits(4);
        let first = world.service.acquire(&asker, handle(&world, 0), all, true).unwrap();
        let mut tickets = Vec::new();
        for (index, permits) in permits.iter().enumerate() {
            let session = 1 + index as u32 % 5;
            let (asker, handle) = (world.asker(session), handle(&world, session));
            let claim = Claim::Permits(*permits);
            let event = world.service.acquire(&asker, handle, claim, true).unwrap();
            prop_assert_eq!(event.outcome, Outcome::Queued);
            tickets.push((asker.session, event.ticket));
        }
        world.service.release(asker.session, first.ticket, false, &mut effects).unwrap();
        let mut last = 1;
        for (session, ticket) in tickets {
            let told = world.service.cancel(session, ticket, &mut effects).unwrap();
            let Some(Event { outcome: Outcome::Granted { token, .. }, .. }) = told else {
                panic!("{told:?}")
            };
            prop_assert!(token > last);
            last = token;
            world.service.release(session, ticket, false, &mut effects).unwrap();
        }
    }
}
