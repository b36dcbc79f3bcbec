//! What holds after any steps, however they mix.

use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;
use proptest::prelude::*;

use crate::{Balance, Key, Seat, Standing, QUEUE_MAX};

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u32),
    Remove(u32),
    Stand(u32, u8),
    Connect(u8),
    Take(u32),
    Hear(u32, u64, u32),
    Audit(u32, u64),
    Late,
    Time(u32),
    Rule(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6u32).prop_map(Step::Add),
        (0..6u32).prop_map(Step::Remove),
        (0..6u32, any::<u8>()).prop_map(|(at, how)| Step::Stand(at, how)),
        any::<u8>().prop_map(Step::Connect),
        (0..6u32).prop_map(Step::Take),
        (0..6u32, any::<u64>(), any::<u32>()).prop_map(|(at, a, b)| Step::Hear(at, a, b)),
        (0..6u32, 0..1000u64).prop_map(|(at, open)| Step::Audit(at, open)),
        Just(Step::Late),
        any::<u32>().prop_map(Step::Time),
        any::<u8>().prop_map(Step::Rule),
    ]
}

fn rule(number: u8) -> Rule {
    [
        Rule::LeastLoad,
        Rule::RoundRobin,
        Rule::Address,
        Rule::Content(Peek::USUAL),
        Rule::Plugin(Peek::USUAL),
    ][number as usize % 5]
}

fn key(number: &u8) -> Key<'_> {
    match number % 3 {
        0 => Key::None,
        1 => Key::Bytes(std::slice::from_ref(number)),
        _ => Key::Place(u32::from(*number) / 3),
    }
}

fn take_step(balance: &mut Balance, step: Step, now: &mut u64) {
    let id = |place| ObjectId { index: place, generation: 1 };
    let has_place = |balance: &Balance, place| balance.seats().iter().any(|it| it.place == place);
    match step {
        Step::Add(place) if !has_place(balance, place) => balance.add(Seat::new(id(place), place)),
        Step::Remove(place) => balance.remove(id(place)),
        Step::Rule(number) => balance.set_rule(rule(number)),
        Step::Time(ns) => *now += u64::from(ns),
        Step::Connect(number) => {
            let has_room = balance
                .seats()
                .iter()
                .any(|it| it.standing == Standing::Ready && it.untaken() < QUEUE_MAX);
            let chosen = balance.choose(key(&number), *now);
            assert_eq!(chosen.is_some(), has_room, "nobody waits while one has room");
            let Some(seat) = chosen.and_then(|id| balance.seat_mut(id)) else { return };
            assert_eq!(seat.standing, Standing::Ready);
            seat.give(*now);
        }
        Step::Late => {
            for id in balance.overdue(*now) {
                let Some(seat) = balance.seat_mut(id) else { panic!("nobody is overdue") };
                assert!(seat.untaken() > 0);
                seat.take_back();
                seat.pass_over(*now);
            }
        }
        Step::Stand(place, how) => {
            let all = [Standing::Joined, Standing::Ready, Standing::Draining];
            balance
                .seat_mut(id(place))
                .into_iter()
                .for_each(|it| it.standing = all[how as usize % 3]);
        }
        Step::Take(place) => balance.seat_mut(id(place)).into_iter().for_each(|it| {
            it.see_untaken(it.untaken().saturating_sub(1), *now);
        }),
        Step::Hear(place, closed, weight) => {
            balance.seat_mut(id(place)).into_iter().for_each(|it| it.hear(closed, weight, *now));
        }
        Step::Audit(place, open) => {
            balance.seat_mut(id(place)).into_iter().for_each(|it| it.load.audit(open, 0));
        }
        Step::Add(_) => {}
    }
}

proptest! {
    #[test]
    fn whatever_workers_say_and_do_connections_go_to_who_waits_and_has_room(
        steps in prop::collection::vec(step(), 0..200)
    ) {
        let (mut balance, mut now) = (Balance::new(Rule::LeastLoad, 1), 0);
        for step in steps {
            take_step(&mut balance, step, &mut now);
            for pair in balance.seats().windows(2) {
                assert!(pair[0].place < pair[1].place);
            }
        }
    }
}
