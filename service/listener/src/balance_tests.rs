use super::*;
use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;

fn worker(place: u32) -> ObjectId {
    ObjectId { index: place, generation: 1 }
}

/// So many workers that wait, at the places from 0 on.
fn balance(rule: Rule, workers: u32) -> Balance {
    let mut balance = Balance::new(rule, 42);
    for place in 0..workers {
        let mut seat = Seat::new(worker(place), place);
        seat.standing = Standing::Ready;
        balance.add(seat);
    }
    balance
}

/// Gives one connection, which is taken at once.
fn give(balance: &mut Balance, key: Key<'_>) -> u32 {
    let chosen = balance.choose(key, 0).unwrap();
    let seat = balance.seat_mut(chosen).unwrap();
    seat.give(0);
    seat.see_untaken(0, 0);
    seat.place
}

fn close(balance: &mut Balance, place: u32, closed: u64) {
    balance.seat_mut(worker(place)).unwrap().hear(closed, 0, 0);
}

#[test]
fn round_robin_gives_to_each_in_its_turn() {
    let mut balance = balance(Rule::RoundRobin, 3);
    let places: Vec<u32> = (0..6).map(|_| give(&mut balance, Key::None)).collect();
    assert_eq!(places, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn least_load_gives_to_who_has_fewest_and_to_equals_in_turn() {
    let mut balance = balance(Rule::LeastLoad, 3);
    let places: Vec<u32> = (0..3).map(|_| give(&mut balance, Key::None)).collect();
    assert_eq!(places, [0, 1, 2]);
    close(&mut balance, 1, 1);
    assert_eq!(give(&mut balance, Key::None), 1);
    close(&mut balance, 0, 1);
    close(&mut balance, 2, 1);
    assert_eq!([0, 1].map(|_| give(&mut balance, Key::None)), [2, 0]);
}

#[test]
fn equal_keys_go_to_one_worker_and_who_leaves_takes_only_its_own() {
    let content = Rule::Content(Peek::USUAL);
    for rule in [Rule::Address, content] {
        let mut eight = balance(rule, 8);
        let keys: Vec<[u8; 4]> = (0..200u32).map(u32::to_le_bytes).collect();
        let before: Vec<u32> = keys.iter().map(|key| give(&mut eight, Key::Bytes(key))).collect();
        let again: Vec<u32> = keys.iter().map(|key| give(&mut eight, Key::Bytes(key))).collect();
        assert_eq!(before, again);
        assert_eq!(before.iter().collect::<std::collections::HashSet<_>>().len(), 8);
        eight.remove(worker(3));
        for (key, place) in keys.iter().zip(before).filter(|(_, place)| *place != 3) {
            assert_eq!(give(&mut eight, Key::Bytes(key)), place);
        }
    }
}

#[test]
fn a_plugin_names_the_place_and_one_that_is_none_is_by_load() {
    let mut balance = balance(Rule::Plugin(Peek::USUAL), 3);
    assert_eq!(give(&mut balance, Key::Place(2)), 2);
    assert_eq!(give(&mut balance, Key::Place(9)), 0);
}

#[test]
fn nobody_is_chosen_before_one_waits_or_while_all_queues_are_full() {
    let mut balance = balance(Rule::LeastLoad, 1);
    balance.add(Seat::new(worker(1), 1));
    for _ in 0..QUEUE_MAX {
        assert_eq!(balance.choose(Key::None, 0), Some(worker(0)));
        balance.seat_mut(worker(0)).unwrap().give(0);
    }
    assert_eq!(balance.choose(Key::None, 0), None);
    balance.seat_mut(worker(0)).unwrap().see_untaken(QUEUE_MAX - 1, 0);
    assert_eq!(balance.choose(Key::None, 0), Some(worker(0)));
    balance.seat_mut(worker(0)).unwrap().standing = Standing::Draining;
    assert!(!balance.is_served() && balance.choose(Key::None, 0).is_none());
}

#[test]
fn who_takes_nothing_is_passed_over_and_tried_again_after_a_pause() {
    const MS: u64 = 1_000_000;
    let mut balance = balance(Rule::RoundRobin, 2);
    balance.seat_mut(worker(0)).unwrap().give(0);
    assert!(balance.overdue(199 * MS).is_empty());
    assert_eq!(balance.overdue(200 * MS), [worker(0)]);
    let seat = balance.seat_mut(worker(0)).unwrap();
    seat.take_back();
    seat.pass_over(200 * MS);
    for _ in 0..3 {
        assert_eq!(balance.choose(Key::None, 201 * MS), Some(worker(1)));
    }
    assert_eq!(balance.choose(Key::None, 700 * MS), Some(worker(0)));
    let seat = balance.seat_mut(worker(0)).unwrap();
    seat.pass_over(900 * MS);
    assert!(seat.is_passed_over(1899 * MS), "the pause has doubled");
}

#[test]
fn where_nobody_is_free_nobody_is_overdue() {
    let mut balance = balance(Rule::LeastLoad, 2);
    let _ = [0, 1].map(|place| balance.seat_mut(worker(place)).unwrap().give(0));
    assert!(balance.overdue(u64::MAX / 2).is_empty());
}

#[test]
fn a_liar_gets_what_one_interval_gives_and_no_more() {
    let mut balance = balance(Rule::LeastLoad, 4);
    let mut given = [0u64; 4];
    for round in 0..50 {
        for _ in 0..20 {
            let place = give(&mut balance, Key::None) as usize;
            given[place] += 1;
            let mine = given[0];
            close(&mut balance, 0, mine);
        }
        for place in 0..4 {
            balance.seat_mut(worker(place)).unwrap().load.audit(given[place as usize], 0);
        }
        assert!(round > 0 || given[0] > 10, "it is believed once");
    }
    assert!(given[0] <= 1000 / 4 + 20, "{given:?}");
}
