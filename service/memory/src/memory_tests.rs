use std::time::{Duration, Instant};

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::memory::page::State;
use heliostat_abi::memory::{Allocation, MemoryName, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Bound;
use heliostat_service_grant::{Full, Holder, Shares};

use crate::*;

const LIMITS: Limits = Limits {
    arena_bytes: 64 << 20,
    handles_per_session: 200_000,
    handles: Shares::whole(1 << 20),
    regions: Shares::whole(1 << 20),
    bytes: Shares::whole(1 << 40),
    arenas: Shares::whole(100),
};

fn asker(index: u32, uid: u32, maps: bool) -> Asker {
    let session = ObjectId { index, generation: 1 };
    Asker { session, holder: Holder::user(uid), uid, maps, is_user: maps }
}

fn wanted(bytes: u64, name: Option<&str>) -> Allocation {
    let name = name.map(|name| MemoryName::parse(name).unwrap());
    Allocation { bytes, lasting: false, name, others: Rights::NONE }
}

fn allocate(service: &mut Memory, asker: &Asker, wanted: Allocation) -> ObjectId {
    let room = service.check_allocation(asker, &wanted).unwrap();
    let arena = match room {
        Room::Here => None,
        Room::NewArena(bytes) => Some(service.add_arena((asker.uid, asker.holder), bytes).unwrap()),
    };
    service.allocate(asker, wanted, arena, 0, &mut Vec::new()).unwrap()
}

fn region(service: &Memory, asker: &Asker, handle: ObjectId) -> ObjectId {
    service.granted(asker.session, handle, 0).unwrap().region
}

#[test]
fn small_regions_share_an_arena_and_a_large_one_has_its_own() {
    let mut service = Memory::new(LIMITS);
    let one = asker(1, 7, true);
    let arena =
        |service: &Memory, handle| service.granted(one.session, handle, 0).unwrap().pieces[0].arena;
    let first = allocate(&mut service, &one, wanted(100, None));
    let second = allocate(&mut service, &one, wanted(1 << 20, None));
    let large = allocate(&mut service, &one, wanted(17 << 20, None));
    assert_eq!(arena(&service, first), arena(&service, second));
    assert_ne!(arena(&service, first), arena(&service, large));
    assert_eq!(service.arena_count(), (2, 128 + (1 << 20) + (17 << 20)));
    let mut effects = Vec::new();
    let gone = arena(&service, large);
    service.free(one.session, large, &mut effects).unwrap();
    assert_eq!(effects.last(), Some(&Effect::ArenaGone(gone)));
}

#[test]
fn a_mapper_of_a_freed_region_gets_stale_and_its_bytes_wait_for_it() {
    let mut service = Memory::new(LIMITS);
    let (owner, other) = (asker(1, 7, true), asker(2, 7, true));
    let handle = allocate(&mut service, &owner, wanted(100, Some("a")));
    let id = region(&service, &owner, handle);
    let mut effects = Vec::new();
    let mapped = service.map(&other, id, Rights::READ, &mut effects).unwrap();
    service.end(owner.session, &mut effects);
    assert_eq!(effects, [Effect::Word(id, State::Gone, 0)]);
    let refused = service.granted(other.session, mapped, 0).unwrap_err();
    assert_eq!((refused.code(), service.retired_count()), (Code::Stale, 1));
    service.unmap(other.session, mapped, &mut effects).unwrap();
    assert!(matches!(effects.last(), Some(Effect::Erase(_))));
    assert_eq!((service.retired_count(), service.arena_count().1), (0, 0));
}

#[test]
fn a_region_lives_as_long_as_one_of_several_managers_and_longer_if_it_lasts() {
    let mut service = Memory::new(LIMITS);
    let (first, second) = (asker(1, 7, true), asker(2, 7, true));
    let handle = allocate(&mut service, &first, wanted(100, None));
    let id = region(&service, &first, handle);
    let mut effects = Vec::new();
    service.map(&second, id, Rights::ALL, &mut effects).unwrap();
    service.end(first.session, &mut effects);
    assert_eq!(service.region(id, 0).map(|region| region.managers), Some(1));
    service.end(second.session, &mut effects);
    assert_eq!(service.region(id, 0), None);
    let lasting = Allocation { lasting: true, ..wanted(100, Some("b")) };
    let handle = allocate(&mut service, &first, lasting);
    let id = region(&service, &first, handle);
    service.end(first.session, &mut effects);
    let view = service.region(id, 5_000_000_000).unwrap();
    assert_eq!((view.managers, view.listed.lasting, view.listed.age_s), (0, true, 5));
}

#[test]
fn rights_are_what_was_given_and_nobody_gives_more() {
    let mut service = Memory::new(LIMITS);
    let (owner, other) = (asker(1, 7, true), asker(2, 8, true));
    let handle = allocate(&mut service, &owner, wanted(100, None));
    let id = region(&service, &owner, handle);
    let both = Rights::READ.and(Rights::MANAGE);
    service.appoint(owner.session, handle, 8, both).unwrap();
    assert_eq!((service.rights_of(id, 8), service.rights_of(id, 9)), (both, Rights::NONE));
    let mapped = service.map(&other, id, both, &mut Vec::new()).unwrap();
    let granted = service.granted(other.session, mapped, 0).unwrap();
    assert_eq!((granted.direct, granted.pieces), (false, vec![]));
    let lacks = |rights| Err(Reason::Lacks { rights }.into());
    assert_eq!(service.appoint(other.session, mapped, 9, Rights::ALL), lacks(Rights::ALL));
    assert_eq!(service.rename(other.session, mapped, None, Rights::NONE), lacks(Rights::SHARE));
    service.appoint(owner.session, handle, 8, Rights::NONE).unwrap();
    assert_eq!(service.rights_of(id, 8), Rights::NONE);
}

#[test]
fn growth_keeps_the_pieces_and_is_refused_beyond_their_number() {
    use heliostat_abi::memory::limits::PIECES_MAX;
    let mut service = Memory::new(LIMITS);
    let one = asker(1, 7, true);
    let handle = allocate(&mut service, &one, wanted(64, None));
    let mut length = 64;
    let refused = loop {
        // Something lies behind it, so that it cannot go on where it is.
        allocate(&mut service, &one, wanted(64, None));
        length += 64;
        match service.check_growth(&one, handle, length) {
            Ok(_) => service.grow(&one, handle, length, None, &mut Vec::new()).unwrap(),
            Err(refused) => break refused,
        }
    };
    let limit = PIECES_MAX as u64;
    let bound = Bound::new(Thing::MemoryPieces, Side::Object);
    assert_eq!(refused, Full { bound, limit }.into());
    let first = service.granted(one.session, handle, 0).unwrap();
    let rest = service.granted(one.session, handle, 60).unwrap();
    assert_eq!((first.pieces.len(), first.pieces_all, rest.pieces.len()), (20, 64, 4));
    assert_eq!(first.bytes, 64 * limit);
    let shorter = service.check_growth(&one, handle, 1);
    assert_eq!(shorter, Err(Reason::Shorter { bytes: 64 * limit }.into()));
}

#[test]
fn limits_say_whose_they_are() {
    let few = Shares { user: 2, ..Shares::whole(100) };
    let bytes = Shares { user: 1000, ..Shares::whole(1 << 40) };
    let mut service = Memory::new(Limits { regions: few, bytes, handles_per_session: 2, ..LIMITS });
    let one = asker(1, 7, true);
    let full = |service: &Memory, bytes| match service.check_allocation(&one, &wanted(bytes, None))
    {
        Err(Refusal::Full(Full { bound, limit })) => (bound.thing, bound.side, limit),
        other => panic!("{other:?}"),
    };
    assert_eq!(full(&service, 1001), (Thing::MemoryBytes, Side::User, 1000));
    let handle = allocate(&mut service, &one, wanted(10, None));
    allocate(&mut service, &one, wanted(10, None));
    assert_eq!(full(&service, 1), (Thing::MemoryHandles, Side::Session, 2));
    service.unmap(one.session, handle, &mut Vec::new()).unwrap();
    assert_eq!(service.region_count(), 1);
    allocate(&mut service, &one, wanted(10, None));
    service.set_limits(Limits { regions: few, ..LIMITS });
    assert_eq!(full(&service, 1), (Thing::MemoryRegions, Side::User, 2));
    let none = service.check_allocation(&asker(2, 8, true), &wanted(0, None));
    assert_eq!(none, Err(Reason::Length { bytes: 0 }.into()));
    let wide = service.check_allocation(&asker(2, 8, true), &wanted(u64::MAX, None));
    assert_eq!(wide, Err(Reason::Length { bytes: u64::MAX }.into()));
}

#[test]
fn a_question_is_answered_once_or_ends_with_its_time() {
    let mut service = Memory::new(LIMITS);
    let (judge, asking) = (asker(1, 7, true), asker(2, 8, true));
    let handle = allocate(&mut service, &judge, wanted(100, None));
    let wish = (region(&service, &judge, handle), Rights::READ);
    let mut effects = Vec::new();
    assert_eq!(service.ask(&asking, 9, wish, 0, &mut effects), Ok(None));
    service.judge(judge.session, handle).unwrap();
    let first = service.ask(&asking, 9, wish, 0, &mut effects).unwrap().unwrap();
    service.ask(&asking, 9, wish, 0, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Ring(judge.session); 2]);
    let told = service.next_asked(judge.session).unwrap();
    assert_eq!((told.question, told.user, told.process), (first, 8, 9));
    let answered = service.answer(judge.session, first, Rights::ALL, &mut effects).unwrap();
    assert!(answered.asker == asking && answered.handle.is_ok());
    let again = service.answer(judge.session, first, Rights::ALL, &mut effects);
    assert_eq!(again, Err(Reason::NoQuestion.into()));
    let until = service.next_expiry_ns().unwrap();
    assert_eq!(service.expire(until - 1), []);
    let unwilling = Err(Reason::Unwilling.into());
    assert_eq!(service.expire(until), [Answered { asker: asking, handle: unwilling }]);
    assert_eq!(service.next_expiry_ns(), None);
}

#[test]
fn a_hundred_thousand_regions_come_and_go() {
    let mut service = Memory::new(LIMITS);
    let one = asker(1, 7, true);
    let all: Vec<_> =
        (0..100_000).map(|_| allocate(&mut service, &one, wanted(64, None))).collect();
    assert_eq!((service.region_count(), service.arena_count().0), (100_000, 1));
    let mut effects = Vec::new();
    all.iter().step_by(2).for_each(|it| service.free(one.session, *it, &mut effects).unwrap());
    assert_eq!(service.arena_count().1, 50_000 * 64);
    service.end(one.session, &mut effects);
    assert_eq!((service.region_count(), service.arena_count()), (0, (0, 0)));
}

/// Somebody with 100,000 handles on one region, and that region.
fn with_many_handles(service: &mut Memory, owner: &Asker, holder: &Asker) -> (ObjectId, ObjectId) {
    let own = allocate(service, owner, wanted(64, None));
    let id = region(service, owner, own);
    for _ in 0..100_000 {
        service.map(holder, id, Rights::READ, &mut Vec::new()).unwrap();
    }
    (own, id)
}

#[test]
fn a_hundred_thousand_handles_on_one_region_end_in_no_time() {
    let begun = Instant::now();
    let mut effects = Vec::new();
    let one = asker(1, 7, true);
    let mut service = Memory::new(LIMITS);
    with_many_handles(&mut service, &one, &one);
    service.end(one.session, &mut effects);
    assert_eq!((service.retired_count(), service.arena_count()), (0, (0, 0)));
    // The region ends first, and its bytes wait for the handles.
    let (owner, other) = (asker(2, 7, true), asker(3, 7, true));
    with_many_handles(&mut service, &owner, &other);
    service.end(owner.session, &mut effects);
    assert_eq!(service.retired_count(), 1);
    service.end(other.session, &mut effects);
    assert_eq!((service.retired_count(), service.arena_count()), (0, (0, 0)));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_loop_is_told_once_of_all_handles_of_a_session_on_a_region() {
    let begun = Instant::now();
    let mut effects = Vec::new();
    let (owner, other) = (asker(1, 7, true), asker(2, 8, false));
    let mut service = Memory::new(LIMITS);
    service.serve(&other, &mut effects).unwrap();
    let (own, region) = with_many_handles(&mut service, &owner, &other);
    let session = other.session;
    service.grow(&owner, own, 128, None, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Word(region, State::Live, 2), Effect::Place { session, region }]);
    effects.clear();
    service.free(owner.session, own, &mut effects).unwrap();
    assert_eq!(
        effects,
        [Effect::Word(region, State::Gone, 0), Effect::Leave { session, region, epoch: 0 }]
    );
    service.left(region, 0, |its| its == session, &mut effects);
    assert_eq!((service.retired_count(), service.arena_count().1), (0, 0));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}
