//! Locks and semaphores, case by case.

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::lock::{Claim, Event, LockName, Outcome, Shape};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Full, Holder, Shares};

use crate::*;

const LIMITS: Limits = Limits {
    locks: Shares { user: 3, ..Shares::whole(100) },
    handles_per_session: 4,
    handles: Shares::whole(100),
    tickets_per_session: 3,
    tickets: Shares { user: 8, ..Shares::whole(100) },
};

pub(crate) fn asker(index: u32) -> Asker {
    Asker { session: ObjectId { index, generation: 1 }, holder: Holder::user(7) }
}

pub(crate) fn locks() -> Locks {
    Locks::new(LIMITS, 100)
}

pub(crate) fn key(name: &str) -> Key {
    Key { uid: 7, name: LockName::parse(name).unwrap() }
}

pub(crate) fn open(locks: &mut Locks, index: u32, shape: Shape) -> ObjectId {
    locks.open(&asker(index), key("a"), shape, 0).unwrap().0
}

fn acquire(locks: &mut Locks, index: u32, handle: ObjectId, claim: Claim) -> Event {
    locks.acquire(&asker(index), handle, claim, true).unwrap()
}

fn granted(token: u64, has_owner_died: bool) -> Outcome {
    Outcome::Granted { token, has_owner_died }
}

fn told(locks: &mut Locks, index: u32) -> Vec<Event> {
    locks.next(asker(index).session).unwrap().0
}

#[test]
fn who_comes_second_waits_and_is_rung_when_the_first_releases() {
    let (mut locks, mut effects) = (locks(), Vec::new());
    let handles = [1, 2].map(|index| open(&mut locks, index, Shape::LOCK));
    let first = acquire(&mut locks, 1, handles[0], Claim::Exclusive);
    assert_eq!(first.outcome, granted(100, false));
    let second = acquire(&mut locks, 2, handles[1], Claim::Exclusive);
    assert_eq!(second.outcome, Outcome::Queued);
    assert_eq!(told(&mut locks, 2), []);
    locks.release(asker(1).session, first.ticket, false, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Ring(asker(2).session)]);
    let event = Event { ticket: second.ticket, outcome: granted(101, false) };
    assert_eq!(told(&mut locks, 2), [event]);
    assert_eq!(told(&mut locks, 2), []);
    let again = locks.release(asker(1).session, first.ticket, false, &mut effects).unwrap_err();
    assert_eq!(again.code(), Code::NotFound);
}

#[test]
fn who_does_not_want_to_wait_has_no_ticket() {
    let mut locks = locks();
    let handle = open(&mut locks, 1, Shape::LOCK);
    acquire(&mut locks, 1, handle, Claim::Exclusive);
    let tried = locks.acquire(&asker(1), handle, Claim::Exclusive, false).unwrap();
    assert_eq!(tried.outcome, Outcome::Busy);
    assert_eq!(locks.holding(asker(1).session), Holding { handles: 1, held: 1, waiting: 0 });
}

#[test]
fn readers_share_and_those_behind_a_writer_wait_for_it() {
    let (mut locks, mut effects) = (locks(), Vec::new());
    let handles = [0, 1, 2, 3].map(|index| open(&mut locks, index, Shape::READER_WRITER));
    let one = acquire(&mut locks, 0, handles[0], Claim::Shared);
    let two = acquire(&mut locks, 1, handles[1], Claim::Shared);
    assert_eq!((one.outcome, two.outcome), (granted(100, false), granted(101, false)));
    let writer = acquire(&mut locks, 2, handles[2], Claim::Exclusive);
    let late = acquire(&mut locks, 3, handles[3], Claim::Shared);
    assert_eq!((writer.outcome, late.outcome), (Outcome::Queued, Outcome::Queued));
    locks.release(asker(0).session, one.ticket, false, &mut effects).unwrap();
    assert_eq!(effects, []);
    locks.release(asker(1).session, two.ticket, false, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Ring(asker(2).session)]);
    effects.clear();
    locks.release(asker(2).session, writer.ticket, false, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Ring(asker(3).session)]);
    assert_eq!(told(&mut locks, 3)[0].outcome, granted(103, false));
}

#[test]
fn who_cancels_in_front_lets_those_behind_go() {
    let (mut locks, mut effects) = (locks(), Vec::new());
    let handles = [0, 1, 2].map(|index| open(&mut locks, index, Shape::semaphore(3).unwrap()));
    acquire(&mut locks, 0, handles[0], Claim::Permits(2));
    let many = acquire(&mut locks, 1, handles[1], Claim::Permits(3));
    let few = acquire(&mut locks, 2, handles[2], Claim::Permits(1));
    assert_eq!((many.outcome, few.outcome), (Outcome::Queued, Outcome::Queued));
    assert_eq!(locks.cancel(asker(1).session, many.ticket, &mut effects), Ok(None));
    assert_eq!(effects, [Effect::Ring(asker(2).session)]);
    // Once it has got it, cancelling says so, and says so again; it is not told a second time.
    let event = Event { ticket: few.ticket, outcome: granted(101, false) };
    for _ in 0..2 {
        assert_eq!(locks.cancel(asker(2).session, few.ticket, &mut effects), Ok(Some(event)));
    }
    assert_eq!(told(&mut locks, 2), []);
}

#[test]
fn a_holder_that_dies_is_told_to_those_after_it_until_one_releases() {
    let (mut locks, mut effects) = (locks(), Vec::new());
    let handles = [1, 2, 3].map(|index| open(&mut locks, index, Shape::LOCK));
    acquire(&mut locks, 1, handles[0], Claim::Exclusive);
    let second = acquire(&mut locks, 2, handles[1], Claim::Exclusive);
    let third = acquire(&mut locks, 3, handles[2], Claim::Exclusive);
    locks.end(asker(1).session, &mut effects);
    assert_eq!(told(&mut locks, 2)[0].outcome, granted(101, true));
    locks.release(asker(2).session, second.ticket, false, &mut effects).unwrap();
    assert_eq!(told(&mut locks, 3)[0].outcome, granted(102, false), "the second put it right");
    locks.release(asker(3).session, third.ticket, false, &mut effects).unwrap();
}

#[test]
fn a_holder_that_did_not_know_so_and_a_reader_leave_nothing_doubtful() {
    let (mut locks, mut effects) = (locks(), Vec::new());
    let handles = [1, 2, 3].map(|index| open(&mut locks, index, Shape::READER_WRITER));
    acquire(&mut locks, 1, handles[0], Claim::Shared);
    acquire(&mut locks, 2, handles[1], Claim::Exclusive);
    acquire(&mut locks, 3, handles[2], Claim::Exclusive);
    locks.end(asker(1).session, &mut effects);
    // The second has it, and has not asked yet.
    locks.end(asker(2).session, &mut effects);
    assert_eq!(told(&mut locks, 3)[0].outcome, granted(102, false));
}

/// Whoever was not told of a death, or did nothing under the lock, has put nothing right.
#[test]
fn a_death_is_told_further_by_who_never_saw_it_and_by_who_touched_nothing() {
    let (mut locks, mut effects) = (locks(), Vec::new());
    let handles = [1, 2, 3, 4, 5].map(|index| open(&mut locks, index, Shape::LOCK));
    let all = [1, 2, 3, 4, 5]
        .map(|index| acquire(&mut locks, index, handles[index as usize - 1], Claim::Exclusive));
    locks.end(asker(1).session, &mut effects);
    // The second and the third have it, one after the other, and have not asked.
    locks.release(asker(2).session, all[1].ticket, false, &mut effects).unwrap();
    locks.close(asker(3).session, handles[2], &mut effects).unwrap();
    let given_up = locks.cancel(asker(4).session, all[3].ticket, &mut effects).unwrap();
    assert_eq!(given_up.map(|event| event.outcome), Some(granted(103, true)));
    locks.release(asker(4).session, all[3].ticket, true, &mut effects).unwrap();
    assert_eq!(told(&mut locks, 5)[0].outcome, granted(104, true));
}

#[test]
fn nobody_is_told_of_deaths_of_a_silent_lock() {
    let (mut locks, mut effects) = (locks(), Vec::new());
    let handles = [1, 2].map(|index| open(&mut locks, index, Shape::LOCK.silent()));
    acquire(&mut locks, 1, handles[0], Claim::Exclusive);
    acquire(&mut locks, 2, handles[1], Claim::Exclusive);
    locks.end(asker(1).session, &mut effects);
    assert_eq!(told(&mut locks, 2)[0].outcome, granted(101, false));
}

#[test]
fn a_lock_vanishes_with_its_last_handle_and_tokens_grow_all_the_same() {
    let (mut locks, mut effects) = (locks(), Vec::new());
    let handle = open(&mut locks, 1, Shape::LOCK);
    acquire(&mut locks, 1, handle, Claim::Exclusive);
    locks.close(asker(1).session, handle, &mut effects).unwrap();
    assert_eq!((locks.lock_count(), locks.ticket_counts()), (0, (0, 0)));
    let handle = open(&mut locks, 1, Shape::READER_WRITER);
    let again = acquire(&mut locks, 1, handle, Claim::Exclusive);
    assert_eq!(again.outcome, granted(101, false));
}

#[test]
fn a_name_is_one_thing() {
    let mut locks = locks();
    let handle = open(&mut locks, 1, Shape::semaphore(2).unwrap());
    let other = Shape::semaphore(3).unwrap();
    let found = Shape::semaphore(2).unwrap();
    let wrong = locks.open(&asker(2), key("a"), other, 0);
    assert_eq!(wrong, Err(Reason::Shape { found }.into()));
    for claim in [Claim::Exclusive, Claim::Shared, Claim::Permits(3)] {
        let wrong = locks.acquire(&asker(1), handle, claim, true);
        assert_eq!(wrong, Err(Reason::Claim { found }.into()), "{claim:?}");
    }
    assert!(locks.arrive(&asker(1), handle, &mut Vec::new()).is_err());
    assert!(locks.reset(asker(1).session, handle, &mut Vec::new()).is_err());
}

#[test]
fn what_is_another_sessions_is_not_there() {
    let (mut locks, mut effects) = (locks(), Vec::new());
    let handle = open(&mut locks, 1, Shape::LOCK);
    let held = acquire(&mut locks, 1, handle, Claim::Exclusive);
    let other = asker(2);
    let no = |refusal: Refusal| refusal.code();
    assert_eq!(
        locks.acquire(&other, handle, Claim::Exclusive, true).map_err(no),
        Err(Code::NotFound)
    );
    assert_eq!(
        locks.release(other.session, held.ticket, false, &mut effects).map_err(no),
        Err(Code::NotFound)
    );
    assert_eq!(
        locks.cancel(other.session, held.ticket, &mut effects).map_err(no),
        Err(Code::NotFound)
    );
    assert_eq!(locks.close(other.session, handle, &mut effects).map_err(no), Err(Code::NotFound));
}

#[test]
fn limits_are_of_the_session_and_of_the_user() {
    let mut locks = locks();
    let handle = open(&mut locks, 1, Shape::semaphore(9).unwrap());
    for _ in 0..3 {
        acquire(&mut locks, 1, handle, Claim::Permits(1));
    }
    let full = Full::of(Thing::LockTickets, Side::Session, 3);
    let fourth = locks.acquire(&asker(1), handle, Claim::Permits(1), true);
    assert_eq!(fourth, Err(full.into()));
    for name in ["b", "c"] {
        locks.open(&asker(1), key(name), Shape::LOCK, 0).unwrap();
    }
    let full = Full::of(Thing::Locks, Side::User, 3);
    assert_eq!(locks.open(&asker(2), key("d"), Shape::LOCK, 0), Err(full.into()));
    locks.open(&asker(1), key("c"), Shape::LOCK, 0).unwrap();
    let full = Full::of(Thing::LockHandles, Side::Session, 4);
    assert_eq!(locks.open(&asker(1), key("c"), Shape::LOCK, 0), Err(full.into()));
}

#[test]
fn a_session_that_was_revoked_has_nothing_and_gets_nothing() {
    let (mut locks, mut effects) = (locks(), Vec::new());
    let handles = [1, 2].map(|index| open(&mut locks, index, Shape::LOCK));
    let held = acquire(&mut locks, 1, handles[0], Claim::Exclusive);
    acquire(&mut locks, 2, handles[1], Claim::Exclusive);
    assert_eq!(locks.revoke(&[asker(1).session], &mut effects), 1);
    assert_eq!(told(&mut locks, 2)[0].outcome, granted(101, true));
    let late = locks.release(asker(1).session, held.ticket, false, &mut effects);
    assert_eq!(late, Err(Refusal::Revoked));
    assert_eq!(locks.open(&asker(1), key("b"), Shape::LOCK, 0), Err(Refusal::Revoked));
    assert_eq!(locks.next(asker(1).session), Err(Refusal::Revoked));
    locks.end(asker(1).session, &mut effects);
    locks.end(asker(2).session, &mut effects);
    assert_eq!(locks.lock_count(), 0);
}
