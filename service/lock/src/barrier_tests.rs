//! Barriers, case by case.

use heliostat_abi::lock::{Event, Outcome, Shape, Why};
use heliostat_abi::name::ObjectId;

use crate::lock_tests::{asker, locks, open};
use crate::*;

const PASSED: fn(u64, u32) -> Outcome = |generation, index| Outcome::Passed { generation, index };
const BROKEN: fn(u64, Why) -> Outcome = |generation, why| Outcome::Broken { generation, why };

/// Three participants of one barrier.
fn three() -> (Locks, [ObjectId; 3]) {
    let mut locks = locks();
    let shape = Shape::barrier(3).unwrap();
    let handles = [0, 1, 2].map(|index| open(&mut locks, index, shape));
    (locks, handles)
}

fn arrive(locks: &mut Locks, handles: &[ObjectId; 3], index: u32) -> Event {
    locks.arrive(&asker(index), handles[index as usize], &mut Vec::new()).unwrap()
}

fn told(locks: &mut Locks, index: u32) -> Vec<Outcome> {
    let (events, _) = locks.next(asker(index).session).unwrap();
    events.into_iter().map(|event| event.outcome).collect()
}

#[test]
fn the_last_lets_all_go_on_time_and_again() {
    let (mut locks, handles) = three();
    for generation in 1..4 {
        assert_eq!(arrive(&mut locks, &handles, 0).outcome, Outcome::Queued);
        assert_eq!(arrive(&mut locks, &handles, 1).outcome, Outcome::Queued);
        assert_eq!(arrive(&mut locks, &handles, 2).outcome, PASSED(generation, 2));
        assert_eq!(told(&mut locks, 0), [PASSED(generation, 0)]);
        assert_eq!(told(&mut locks, 1), [PASSED(generation, 1)]);
        assert_eq!(locks.ticket_counts(), (0, 0));
    }
}

#[test]
fn a_participant_that_dies_breaks_it_for_who_waits_and_who_comes_until_it_is_reset() {
    let (mut locks, handles) = three();
    arrive(&mut locks, &handles, 0);
    locks.end(asker(2).session, &mut Vec::new());
    assert_eq!(told(&mut locks, 0), [BROKEN(1, Why::Died)]);
    assert_eq!(arrive(&mut locks, &handles, 1).outcome, BROKEN(1, Why::Died));
    locks.reset(asker(1).session, handles[1], &mut Vec::new()).unwrap();
    assert_eq!(arrive(&mut locks, &handles, 0).outcome, Outcome::Queued);
    assert_eq!(arrive(&mut locks, &handles, 1).outcome, Outcome::Queued);
    let new = open(&mut locks, 3, Shape::barrier(3).unwrap());
    let last = locks.arrive(&asker(3), new, &mut Vec::new()).unwrap();
    assert_eq!(last.outcome, PASSED(2, 2));
}

#[test]
fn one_that_dies_before_anybody_has_arrived_breaks_it_too() {
    let (mut locks, handles) = three();
    locks.end(asker(2).session, &mut Vec::new());
    assert_eq!(arrive(&mut locks, &handles, 0).outcome, BROKEN(1, Why::Died));
}

#[test]
fn one_that_closes_before_it_arrives_is_missed_by_nobody() {
    let (mut locks, handles) = three();
    locks.close(asker(2).session, handles[2], &mut Vec::new()).unwrap();
    assert_eq!(arrive(&mut locks, &handles, 0).outcome, Outcome::Queued);
}

#[test]
fn one_that_gives_up_waiting_breaks_it() {
    let (mut locks, handles) = three();
    let first = arrive(&mut locks, &handles, 0);
    arrive(&mut locks, &handles, 1);
    let cancelled = locks.cancel(asker(0).session, first.ticket, &mut Vec::new());
    assert_eq!(cancelled, Ok(None));
    assert_eq!(told(&mut locks, 1), [BROKEN(1, Why::GaveUp)]);
    assert_eq!(told(&mut locks, 0), []);
}

#[test]
fn who_cancels_what_is_over_is_told_how_it_ended_once() {
    let (mut locks, handles) = three();
    let first = arrive(&mut locks, &handles, 0);
    locks.reset(asker(1).session, handles[1], &mut Vec::new()).unwrap();
    let told = locks.cancel(asker(0).session, first.ticket, &mut Vec::new()).unwrap();
    assert_eq!(told.map(|event| event.outcome), Some(BROKEN(1, Why::Reset)));
    assert!(locks.cancel(asker(0).session, first.ticket, &mut Vec::new()).is_err());
}
