//! Areas from their beginning to their end, step by step.

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{AreaKind, AreaName, AreaRights, Spill, Way, WayWanted};
use heliostat_service_grant::{Full, Holder, Rate, Shares};

use crate::{
    Answered, Areas, Asker, Done, Effect, Failed, Key, Limits, Opening, Order, Question, Reason,
    Refusal, Stored, Wanted,
};

const RATE: Rate = Rate { per_second: 1 << 30, burst: 1 << 20 };
const NO_ROOM: Failed = Failed::NoRoom { wanted: 10, free: 9 };
const NO_RATE: Rate = Rate { per_second: 0, burst: 0 };

fn limits() -> Limits {
    Limits {
        handles_per_session: 3,
        handles: Shares::whole(100),
        areas: Shares { user: 2, ..Shares::whole(10) },
        bytes: Shares { user: 100, ..Shares::whole(1000) },
        rate: NO_RATE,
        direct: 2,
    }
}

fn id(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

fn asker(session: u32, uid: u32) -> Asker {
    Asker { session: id(session), holder: Holder::user(uid), uid, is_user: true }
}

fn name(text: &str) -> AreaName {
    AreaName::parse(text).unwrap()
}

fn key(uid: u32, text: &str) -> Key {
    Key { uid, name: name(text) }
}

fn wanted(text: &str, bytes: u64) -> Wanted {
    Wanted { name: name(text), bytes, kind: AreaKind::Log, others: AreaRights::READ }
}

/// Does something and answers with the effects of it.
fn effects<T>(action: impl FnOnce(&mut Vec<Effect>) -> T) -> (T, Vec<Effect>) {
    let mut effects = Vec::new();
    let answer = action(&mut effects);
    (answer, effects)
}

/// A service with one area of user 7, of 40 bytes, which a restart has found.
fn service() -> (Areas, ObjectId) {
    let (kind, others) = (AreaKind::Log, AreaRights::READ);
    let (key, holder) = (key(7, "log"), Holder::user(7));
    let stored = Stored { generation: 5, holder, key: key.clone(), bytes: 40, kind, others };
    let areas = Areas::new(limits(), vec![stored]);
    let area = areas.resolve(&key).unwrap();
    (areas, area)
}

fn by_loop(rights: AreaRights) -> Opening {
    Opening::by_loop(rights)
}

fn direct(rights: AreaRights) -> Opening {
    Opening { way: WayWanted::Any, ..by_loop(rights) }
}

fn open(areas: &mut Areas, asker: &Asker, rights: AreaRights) -> ObjectId {
    areas.open(asker, &key(7, "log"), &by_loop(rights), &mut Vec::new()).unwrap().0
}

#[test]
fn an_area_is_there_when_the_store_has_made_it() {
    let mut areas = Areas::new(limits(), Vec::new());
    let (asked, ordered) = effects(|it| areas.create(&asker(1, 7), wanted("a", 10), 3, it));
    let area = areas.resolve(&key(7, "a")).unwrap();
    let (kind, others) = (AreaKind::Log, AreaRights::READ);
    let order = Order::Create { key: key(7, "a"), bytes: 10, kind, others };
    assert_eq!((asked, ordered), (Ok(()), vec![Effect::Order(area, order)]));
    let early = areas.open(&asker(1, 7), &key(7, "a"), &by_loop(AreaRights::READ), &mut Vec::new());
    assert_eq!(early, Err(Reason::NotFound.into()));
    let taken = areas.create(&asker(2, 7), wanted("a", 10), 0, &mut Vec::new());
    assert_eq!(taken, Err(Reason::NameTaken.into()));
    let ((), told) = effects(|it| areas.done(area, Ok(Done { generation: 9 }), it));
    let question = Question { session: id(1), number: 3 };
    assert_eq!(told, [Effect::Answer(question, Ok(Answered::Area(area)))]);
    assert_eq!(areas.view(area).unwrap().generation, 9);
    assert!(areas
        .open(&asker(1, 7), &key(7, "a"), &by_loop(AreaRights::ALL), &mut Vec::new())
        .is_ok());
}

#[test]
fn an_area_that_the_store_could_not_make_leaves_nothing() {
    let mut areas = Areas::new(limits(), Vec::new());
    areas.create(&asker(1, 7), wanted("a", 100), 3, &mut Vec::new()).unwrap();
    let area = areas.resolve(&key(7, "a")).unwrap();
    let ((), told) = effects(|it| areas.done(area, Err(NO_ROOM), it));
    let question = Question { session: id(1), number: 3 };
    assert_eq!(told, [Effect::Answer(question, Err(Reason::Store(NO_ROOM).into()))]);
    assert_eq!(areas.resolve(&key(7, "a")), None);
    areas.create(&asker(1, 7), wanted("a", 100), 4, &mut Vec::new()).unwrap();
}

#[test]
fn what_a_user_may_have_is_counted_over_its_areas_and_restarts() {
    let (mut areas, _) = service();
    let (session, holder) = (asker(1, 7), Side::User);
    let bytes = areas.create(&session, wanted("b", 61), 0, &mut Vec::new());
    assert_eq!(bytes, Err(Full::of(Thing::AreaBytes, holder, 100).into()));
    areas.create(&session, wanted("b", 60), 0, &mut Vec::new()).unwrap();
    let count = areas.create(&asker(1, 7), wanted("c", 1), 0, &mut Vec::new());
    let of_bytes = Full::of(Thing::AreaBytes, holder, 100);
    assert_eq!(count, Err(of_bytes.into()));
    let full = areas.create(&asker(1, 8), wanted("c", 1), 0, &mut Vec::new());
    assert_eq!(full, Ok(()), "another user has a share of its own");
    assert_eq!(
        areas.create(&asker(1, 8), wanted("d", 0), 0, &mut Vec::new()),
        Err(Reason::Empty.into())
    );
}

#[test]
fn others_may_what_the_owner_says_and_know_of_nothing_else() {
    let (mut areas, area) = service();
    let wanted = AreaRights::WRITE;
    let denied = Reason::Denied { wanted, allowed: AreaRights::READ };
    let stranger = asker(2, 8);
    let asked = areas.open(&stranger, &key(7, "log"), &by_loop(wanted), &mut Vec::new());
    assert_eq!(asked, Err(denied.into()));
    let (handle, told) = effects(|it| {
        areas.open(&stranger, &key(7, "log"), &by_loop(AreaRights::READ), it).unwrap().0
    });
    let (session, rights) = (id(2), AreaRights::READ);
    assert_eq!(told, [Effect::Open { session, handle, area, rights }]);
    let mine = open(&mut areas, &asker(1, 7), AreaRights::ALL);
    areas.appoint((id(1), mine), AreaRights::NONE, 0, &mut Vec::new()).unwrap();
    areas.done(area, Ok(Done { generation: 5 }), &mut Vec::new());
    let hidden = areas.open(&stranger, &key(7, "log"), &by_loop(AreaRights::READ), &mut Vec::new());
    assert_eq!(hidden, Err(Reason::NotFound.into()));
    // A restricted session of the owner's is somebody else.
    let restricted = Asker { is_user: false, ..asker(3, 7) };
    let hidden =
        areas.open(&restricted, &key(7, "log"), &by_loop(AreaRights::READ), &mut Vec::new());
    assert_eq!(hidden, Err(Reason::NotFound.into()));
}

#[test]
fn an_area_ends_when_the_last_handle_is_let_go_and_not_before() {
    let (mut areas, area) = service();
    let mine = open(&mut areas, &asker(1, 7), AreaRights::ALL);
    let other = open(&mut areas, &asker(2, 8), AreaRights::READ);
    let ((), told) = effects(|it| areas.delete((id(1), mine), 4, it).unwrap());
    let closes = [(1, mine), (2, other)]
        .map(|(session, handle)| Effect::Close { session: id(session), handle });
    assert_eq!(told, closes);
    let late =
        areas.open(&asker(2, 8), &key(7, "log"), &by_loop(AreaRights::READ), &mut Vec::new());
    assert_eq!(late, Err(Reason::Ending.into()));
    let ((), told) = effects(|it| areas.let_go(other, it));
    assert_eq!(told, []);
    let ((), told) = effects(|it| areas.let_go(mine, it));
    assert_eq!(told, [Effect::Order(area, Order::Delete { generation: 5 })]);
    let ((), told) = effects(|it| areas.done(area, Ok(Done { generation: 5 }), it));
    let question = Question { session: id(1), number: 4 };
    assert_eq!(told, [Effect::Answer(question, Ok(Answered::Gone))]);
    assert_eq!(areas.quotas().iter().map(|(_, it)| it.used_by_all()).sum::<u64>(), 0);
}

#[test]
fn an_area_becomes_smaller_when_the_loops_have_left_what_is_cut_off() {
    let (mut areas, area) = service();
    let mine = open(&mut areas, &asker(1, 7), AreaRights::ALL);
    let ((), told) = effects(|it| areas.resize((id(1), mine), 10, 1, it).unwrap());
    assert_eq!(told, [Effect::Bytes { area, bytes: 10, is_asked: true }]);
    let busy = areas.resize((id(1), mine), 20, 2, &mut Vec::new());
    assert_eq!(busy, Err(Reason::Busy.into()));
    let ((), told) = effects(|it| areas.quiet(area, it));
    assert_eq!(told, [Effect::Order(area, Order::Resize { generation: 5, bytes: 10 })]);
    let ((), told) = effects(|it| areas.done(area, Err(Failed::Device), it));
    let question = Question { session: id(1), number: 1 };
    let failed = Effect::Answer(question, Err(Reason::Store(Failed::Device).into()));
    assert_eq!(told, [Effect::Bytes { area, bytes: 40, is_asked: false }, failed]);
    assert_eq!(areas.view(area).unwrap().bytes, 40);
}

#[test]
fn an_area_becomes_larger_within_its_users_share() {
    let (mut areas, area) = service();
    let mine = open(&mut areas, &asker(1, 7), AreaRights::ALL);
    let full = areas.resize((id(1), mine), 101, 1, &mut Vec::new());
    assert_eq!(full, Err(Full::of(Thing::AreaBytes, Side::User, 100).into()));
    let ((), told) = effects(|it| areas.resize((id(1), mine), 100, 1, it).unwrap());
    assert_eq!(told, [Effect::Order(area, Order::Resize { generation: 5, bytes: 100 })]);
    let ((), told) = effects(|it| areas.done(area, Ok(Done { generation: 5 }), it));
    assert_eq!(told[0], Effect::Bytes { area, bytes: 100, is_asked: false });
    let read_only = open(&mut areas, &asker(1, 7), AreaRights::READ);
    let (wanted, allowed) = (AreaRights::MANAGE, AreaRights::READ);
    let denied: Refusal = Reason::Denied { wanted, allowed }.into();
    assert_eq!(areas.delete((id(1), read_only), 0, &mut Vec::new()), Err(denied));
}

#[test]
fn who_wants_to_write_is_let_in_when_the_loop_has_nothing_left_of_a_writer_that_has_ended() {
    let (mut areas, _) = service();
    let both = AreaRights::READ.and(AreaRights::WRITE);
    let left = open(&mut areas, &asker(1, 7), both);
    let given_back = open(&mut areas, &asker(2, 7), both);
    areas.close(id(2), given_back, &mut Vec::new()).unwrap();
    open(&mut areas, &asker(3, 7), both);
    areas.end(id(1), &mut Vec::new());
    let again = |areas: &mut Areas, rights| {
        areas.open(&asker(3, 7), &key(7, "log"), &by_loop(rights), &mut Vec::new()).map(drop)
    };
    assert_eq!(again(&mut areas, both), Err(Reason::Busy.into()));
    assert_eq!(again(&mut areas, AreaRights::READ), Ok(()));
    areas.let_go(left, &mut Vec::new());
    assert_eq!(again(&mut areas, both), Ok(()));
}

#[test]
fn a_session_that_ends_or_is_revoked_loses_its_handles_and_the_area_stays() {
    let (mut areas, area) = service();
    let mine = open(&mut areas, &asker(1, 7), AreaRights::ALL);
    let other = open(&mut areas, &asker(2, 7), AreaRights::ALL);
    let ((), told) = effects(|it| areas.end(id(1), it));
    assert_eq!(told, [Effect::Close { session: id(1), handle: mine }]);
    let (count, told) = effects(|it| areas.revoke(&[id(2)], it));
    assert_eq!((count, told), (1, vec![Effect::Close { session: id(2), handle: other }]));
    let again =
        areas.open(&asker(2, 7), &key(7, "log"), &by_loop(AreaRights::READ), &mut Vec::new());
    assert_eq!(again, Err(Refusal::Revoked));
    [mine, other, mine].iter().for_each(|handle| areas.let_go(*handle, &mut Vec::new()));
    assert_eq!(areas.view(area).unwrap().handles, 0);
    areas.end(id(2), &mut Vec::new());
    assert!(areas
        .open(&asker(2, 7), &key(7, "log"), &by_loop(AreaRights::READ), &mut Vec::new())
        .is_ok());
}

#[test]
fn a_session_has_no_more_handles_than_it_may_and_gives_each_back_once() {
    let (mut areas, _) = service();
    let handles = [0; 3].map(|_| open(&mut areas, &asker(1, 7), AreaRights::READ));
    let full =
        areas.open(&asker(1, 7), &key(7, "log"), &by_loop(AreaRights::READ), &mut Vec::new());
    assert_eq!(full, Err(Full::of(Thing::AreaHandles, Side::Session, 3).into()));
    areas.close(id(1), handles[0], &mut Vec::new()).unwrap();
    let no_handle = Reason::NoHandle { handle: handles[0] };
    assert_eq!(areas.close(id(1), handles[0], &mut Vec::new()), Err(no_handle.into()));
    assert_eq!((areas.holding(id(1)).handles, areas.holding(id(1)).closing), (2, 1));
    let foreign = areas.close(id(2), handles[1], &mut Vec::new());
    assert_eq!(foreign, Err(Reason::NoHandle { handle: handles[1] }.into()));
    areas.let_go(handles[0], &mut Vec::new());
    open(&mut areas, &asker(1, 7), AreaRights::READ);
}

#[test]
fn a_rate_is_the_areas_own_once_it_was_said() {
    let (mut areas, area) = service();
    assert_eq!(areas.view(area).unwrap().rate, NO_RATE);
    let slow = Rate { per_second: 1, burst: 1 };
    let ((), told) = effects(|it| areas.set_rate(area, slow, it).unwrap());
    assert_eq!((told, areas.view(area).unwrap().rate), (vec![Effect::Rate(area, slow)], slow));
    let nobody = areas.set_rate(id(99), slow, &mut Vec::new());
    assert_eq!(nobody, Err(Reason::NotFound.into()));
    let listed: Vec<_> = areas.list(0, "l", |uid| uid == 7).map(|it| it.area).collect();
    assert_eq!(listed, [area]);
    assert_eq!(areas.list(0, "", |uid| uid == 8).count(), 0);
}

#[test]
fn the_direct_way_goes_to_who_comes_first_and_others_are_told_why() {
    let (mut areas, area) = service();
    let mut open = |session, opening: &Opening| {
        let mut effects = Vec::new();
        let opened = areas.open(&asker(session, 7), &key(7, "log"), opening, &mut effects);
        (opened.map(|(_, way)| way), effects.len())
    };
    let any = direct(AreaRights::ALL);
    assert_eq!(open(1, &any), (Ok(Way::Direct), 0));
    assert_eq!(open(2, &any), (Ok(Way::Direct), 0));
    assert_eq!(open(3, &any), (Ok(Way::Emulated(Spill::AllTaken)), 1));
    let untrusted = Opening { untrusted: Some(Spill::NotTrusted), ..any };
    assert_eq!(open(3, &untrusted), (Ok(Way::Emulated(Spill::NotTrusted)), 1));
    let only = Opening { way: WayWanted::Direct, ..any };
    assert_eq!(open(4, &only), (Err(Reason::NotDirect(Spill::AllTaken).into()), 0));
    areas.end(id(2), &mut Vec::new());
    assert_eq!(areas.view(area).unwrap().direct, 1);
    let opened = areas.open(&asker(4, 7), &key(7, "log"), &only, &mut Vec::new());
    assert_eq!(opened.unwrap().1, Way::Direct);
}

#[test]
fn nobody_takes_bytes_from_who_has_them_directly() {
    let (mut areas, area) = service();
    let manager = open(&mut areas, &asker(1, 7), AreaRights::ALL);
    let opening = direct(AreaRights::READ);
    let (held, _) = areas.open(&asker(2, 7), &key(7, "log"), &opening, &mut Vec::new()).unwrap();
    let no: Refusal = Reason::Held { session: id(2), count: 1 }.into();
    let mut none = Vec::new();
    assert_eq!(areas.delete((id(1), manager), 1, &mut none), Err(no));
    assert_eq!(areas.resize((id(1), manager), 39, 1, &mut none), Err(no));
    assert_eq!(areas.set_rate(area, RATE, &mut none), Err(no));
    assert_eq!(none, []);
    assert_eq!(areas.resize((id(1), manager), 41, 1, &mut none), Ok(()));
    areas.done(area, Ok(Done { generation: 5 }), &mut none);
    areas.close(id(2), held, &mut none).unwrap();
    assert_eq!(areas.delete((id(1), manager), 2, &mut none), Ok(()));
}

#[test]
fn an_area_with_a_rate_or_in_a_change_is_not_opened_directly() {
    let (mut areas, area) = service();
    areas.set_rate(area, RATE, &mut Vec::new()).unwrap();
    let opening = direct(AreaRights::READ);
    let way = |areas: &mut Areas| {
        areas.open(&asker(1, 7), &key(7, "log"), &opening, &mut Vec::new()).unwrap().1
    };
    assert_eq!(way(&mut areas), Way::Emulated(Spill::HasRate));
    areas.set_rate(area, NO_RATE, &mut Vec::new()).unwrap();
    let manager = open(&mut areas, &asker(2, 7), AreaRights::ALL);
    areas.resize((id(2), manager), 50, 1, &mut Vec::new()).unwrap();
    assert_eq!(way(&mut areas), Way::Emulated(Spill::Changing));
}

#[test]
fn a_loop_that_takes_a_session_in_hears_of_its_handles() {
    let (mut areas, area) = service();
    let handle = open(&mut areas, &asker(1, 7), AreaRights::READ);
    let closed = open(&mut areas, &asker(1, 7), AreaRights::READ);
    areas.close(id(1), closed, &mut Vec::new()).unwrap();
    areas.open(&asker(1, 7), &key(7, "log"), &direct(AreaRights::READ), &mut Vec::new()).unwrap();
    let ((), told) = effects(|it| areas.serve(id(1), it));
    let rights = AreaRights::READ;
    assert_eq!(told, [Effect::Open { session: id(1), handle, area, rights }]);
}
