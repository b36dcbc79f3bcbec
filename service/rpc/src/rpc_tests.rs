use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::{FunctionName, Publication};
use heliostat_service_grant::{Holder, Shares};

use super::*;

const LIMITS: Limits =
    Limits { functions_per_session: 3, functions: Shares { user: 4, ..Shares::whole(8) } };

fn asker(index: u32, uid: u32) -> Asker {
    let session = ObjectId { index, generation: 1 };
    Asker { session, holder: Holder::user(uid), uid }
}

fn name(text: &str) -> FunctionName {
    FunctionName::parse(text).unwrap()
}

fn publication(text: &str) -> Publication {
    let (request_bytes, reply_bytes, queue) = (100, 200, 4);
    Publication { name: name(text), others: false, request_bytes, reply_bytes, queue }
}

fn key(uid: u32, text: &str) -> Key {
    Key { uid, name: name(text) }
}

const SERVES: Role = Role { serves: true, calls: false };
const CALLS: Role = Role { serves: false, calls: true };

#[test]
fn a_function_lives_as_long_as_somebody_serves_it_and_its_callers_lose_it_with_the_last() {
    let (mut rpc, mut effects) = (Rpc::new(LIMITS), Vec::new());
    let (one, two, caller) = (asker(1, 7), asker(2, 7), asker(3, 7));
    let function = rpc.publish(&one, publication("get"), 5, &mut effects).unwrap();
    let again = Publication { request_bytes: 1, ..publication("get") };
    assert_eq!(rpc.publish(&two, again, 6, &mut effects), Ok(function));
    assert_eq!(rpc.info(function).unwrap().request_bytes, 100, "what the first said");
    rpc.find(&caller, &key(7, "get"), &mut effects).unwrap();
    let session = |asker: &Asker| asker.session;
    let grant = |asker: &Asker, role| Effect::Grant { session: session(asker), function, role };
    let begun = [Effect::Serve(function), grant(&one, SERVES), grant(&two, SERVES)];
    assert_eq!(effects[..3], begun);
    assert_eq!(effects[3..], [grant(&caller, CALLS)]);
    effects.clear();
    rpc.end(one.session, &mut effects);
    assert_eq!(effects, [grant(&one, Role::default())]);
    effects.clear();
    rpc.leave(two.session, function, SERVES, &mut effects).unwrap();
    let none = Role::default();
    assert_eq!(effects, [Effect::Gone(function), grant(&caller, none), grant(&two, none)]);
    let gone = rpc.find(&caller, &key(7, "get"), &mut effects);
    assert_eq!(gone, Err(Reason::NotFound.into()));
    let next = rpc.publish(&two, publication("get"), 7, &mut effects).unwrap();
    assert_ne!(next, function);
}

#[test]
fn a_user_has_names_of_its_own_and_others_call_what_is_open_to_them() {
    let (mut rpc, mut effects) = (Rpc::new(LIMITS), Vec::new());
    let mine = rpc.publish(&asker(1, 7), publication("get"), 0, &mut effects).unwrap();
    let open = Publication { others: true, ..publication("get") };
    let its = rpc.publish(&asker(2, 8), open, 0, &mut effects).unwrap();
    assert_ne!(mine, its);
    assert!(rpc.is_open_to(mine, 7) && !rpc.is_open_to(mine, 8));
    assert!(rpc.is_open_to(its, 7) && rpc.is_open_to(its, 8));
}

#[test]
fn who_serves_and_calls_may_stop_one_of_both() {
    let (mut rpc, mut effects) = (Rpc::new(LIMITS), Vec::new());
    let one = asker(1, 7);
    let function = rpc.publish(&one, publication("get"), 0, &mut effects).unwrap();
    rpc.find(&one, &key(7, "get"), &mut effects).unwrap();
    assert_eq!(rpc.holding(one.session), Holding { serves: 1, calls: 1 });
    rpc.leave(one.session, function, CALLS, &mut effects).unwrap();
    assert_eq!(rpc.holding(one.session), Holding { serves: 1, calls: 0 });
    rpc.leave(one.session, function, SERVES, &mut effects).unwrap();
    let none = Role::default();
    let last = Effect::Grant { session: one.session, function, role: none };
    assert_eq!((rpc.count(), effects.last()), (0, Some(&last)));
    let again = rpc.leave(one.session, function, SERVES, &mut effects);
    assert_eq!(again, Err(Reason::NoFunction { function }.into()));
}

#[test]
fn limits_name_the_session_and_the_user() {
    let (mut rpc, mut effects) = (Rpc::new(LIMITS), Vec::new());
    let mut publish = |index, text: &str| {
        let made = rpc.publish(&asker(index, 7), publication(text), 0, &mut effects);
        made.map_err(|refusal| match refusal {
            Refusal::Full(full) => (full.bound.thing, full.bound.side, full.limit),
            other => panic!("{other}"),
        })
    };
    ["a", "b", "c"].iter().for_each(|text| _ = publish(1, text).unwrap());
    assert_eq!(publish(1, "d"), Err((Thing::Functions, Side::Session, 3)));
    publish(2, "d").unwrap();
    assert_eq!(publish(2, "e"), Err((Thing::Functions, Side::User, 4)));
}

#[test]
fn a_session_that_was_revoked_has_nothing_and_gets_nothing() {
    let (mut rpc, mut effects) = (Rpc::new(LIMITS), Vec::new());
    let one = asker(1, 7);
    rpc.publish(&one, publication("get"), 0, &mut effects).unwrap();
    rpc.serve(one.session, &mut effects).unwrap();
    assert_eq!(rpc.serve(one.session, &mut effects), Err(Reason::Served.into()));
    assert_eq!(rpc.revoke(&[one.session], &mut effects), 1);
    assert_eq!((rpc.count(), rpc.holding(one.session)), (0, Holding::default()));
    let again = rpc.publish(&one, publication("get"), 0, &mut effects);
    assert_eq!(again.map_err(|it| it.code()), Err(Code::Revoked));
    rpc.end(one.session, &mut effects);
    rpc.publish(&one, publication("get"), 0, &mut effects).unwrap();
}

#[test]
fn all_functions_are_listed_once_in_parts() {
    let limits = Limits { functions_per_session: 100, functions: Shares::whole(100) };
    let (mut rpc, mut effects) = (Rpc::new(limits), Vec::new());
    for number in 0..11 {
        let text = format!("kv/{number}");
        rpc.publish(&asker(1, 7), publication(&text), 0, &mut effects).unwrap();
    }
    rpc.publish(&asker(2, 8), publication("kv/x"), 0, &mut effects).unwrap();
    rpc.publish(&asker(1, 7), publication("other"), 0, &mut effects).unwrap();
    let (mut from, mut names) = (0, Vec::new());
    while from != heliostat_abi::rpc::reply::NO_MORE {
        let (some, next) = rpc.list(from, "kv/", 3_000_000_000, |uid| uid == 7);
        names.extend(some.iter().map(|it| it.name.as_str().to_owned()));
        assert!(some.iter().all(|it| it.age_s == 3 && it.servers == 1 && it.callers == 0));
        from = next;
    }
    let wanted: Vec<_> = (0..11).map(|number| format!("kv/{number}")).collect();
    assert_eq!(names, wanted);
}
