use super::*;
use heliostat_abi::code::{Code, Thing};
use heliostat_abi::listener::Rule;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_service_grant::{Holder, Shares};

const LIMITS: Limits = Limits {
    workers_per_session: 4,
    listeners: Shares::whole(2),
    workers: Shares { user: 6, ..Shares::whole(10) },
};

fn session(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

fn endpoint(port: u16) -> Endpoint {
    Endpoint { namespace: 1, address: NetAddress::new(([127, 0, 0, 1], port).into()) }
}

fn joining(who: u32, port: u16) -> Joining {
    Joining {
        session: session(who),
        holder: Holder::user(7),
        endpoint: endpoint(port),
        owner_uid: 7,
        socket: u64::from(port),
        rule: Some(Rule::LeastLoad),
        workers_max: 3,
    }
}

#[test]
fn an_address_is_shared_by_the_first_who_says_so_and_joined_by_others() {
    let mut listeners = Listeners::new(LIMITS);
    let without = Joining { rule: None, ..joining(1, 80) };
    assert_eq!(listeners.join(without).unwrap_err().code(), Code::NotFound);
    let first = listeners.join(joining(1, 80)).unwrap();
    assert!(first.is_first && first.brings_socket && first.place == 0);
    let second = listeners.join(Joining { session: session(2), ..without }).unwrap();
    assert!(!second.is_first && !second.brings_socket);
    assert_eq!((second.listener, second.place, second.workers), (first.listener, 1, 2));
}

#[test]
fn another_users_socket_joins_nothing() {
    let mut listeners = Listeners::new(LIMITS);
    listeners.join(joining(1, 80)).unwrap();
    let other = Joining { owner_uid: 8, socket: 5, ..joining(2, 80) };
    assert_eq!(listeners.join(other).unwrap_err().code(), Code::Denied);
    let inherited = Joining { owner_uid: 8, ..joining(2, 80) };
    assert!(listeners.join(inherited).is_ok(), "it is the same socket");
}

#[test]
fn full_says_of_what_and_leaves_nothing_behind() {
    let mut listeners = Listeners::new(LIMITS);
    for who in 1..4 {
        listeners.join(joining(who, 80)).unwrap();
    }
    let Err(Refusal::Full(full)) = listeners.join(joining(4, 80)) else { panic!("a fourth") };
    assert_eq!((full.bound.thing, full.limit), (Thing::ListenerWorkers, 3));
    listeners.join(joining(4, 81)).unwrap();
    assert_eq!(listeners.join(joining(5, 82)).unwrap_err().code(), Code::Full);
    assert_eq!((listeners.len(), listeners.worker_count()), (2, 4));
}

#[test]
fn a_join_that_is_taken_back_leaves_nothing_behind() {
    let mut listeners = Listeners::new(LIMITS);
    let mut effects = Vec::new();
    let first = listeners.join(joining(1, 80)).unwrap();
    listeners.take_back(first, 80, 5, &mut effects);
    assert_eq!(effects, [Effect::ListenerEnds(first.listener)]);
    assert_eq!((listeners.len(), listeners.worker_count()), (0, 0));
    assert!(listeners.join(joining(1, 80)).unwrap().is_first, "it begins anew");
    effects.clear();
    let second = Joining { socket: 5, ..joining(2, 80) };
    let joined = listeners.join(second).unwrap();
    listeners.take_back(joined, 5, 6, &mut effects);
    assert!(effects.is_empty() && listeners.worker_count() == 1);
    let again = listeners.join(second).unwrap();
    assert!(again.brings_socket && again.place == joined.place, "its socket is asked for again");
}

#[test]
fn a_place_is_given_again_and_the_address_is_kept_for_a_while() {
    let mut listeners = Listeners::new(LIMITS);
    let first = listeners.join(joining(1, 80)).unwrap();
    listeners.join(joining(2, 80)).unwrap();
    let mut effects = Vec::new();
    listeners.end(session(1), 0, &mut effects);
    let gone = Effect::WorkerEnds { listener: first.listener, worker: first.worker };
    assert_eq!(effects, [gone]);
    assert_eq!(listeners.join(joining(3, 80)).unwrap().place, 0);
    effects.clear();
    let _ = [2, 3].map(|who| listeners.end(session(who), 5, &mut effects));
    assert_eq!((effects.len(), listeners.next_deadline_ns()), (2, Some(5 + LINGER_NS)));
    listeners.pass_time(4 + LINGER_NS, |_| false, &mut effects);
    assert_eq!(listeners.len(), 1);
    listeners.pass_time(5 + LINGER_NS, |_| false, &mut effects);
    assert_eq!((listeners.len(), effects.last()), (0, Some(&Effect::ListenerEnds(first.listener))));
}

#[test]
fn what_nobody_has_taken_is_kept_for_the_next_worker_but_not_for_ever() {
    let mut listeners = Listeners::new(LIMITS);
    listeners.join(joining(1, 80)).unwrap();
    let mut effects = Vec::new();
    listeners.end(session(1), 5, &mut effects);
    let mut looks = 0;
    while let Some(now) = listeners.next_deadline_ns() {
        assert!(now <= 5 + LINGER_HELD_NS, "it ends");
        listeners.pass_time(now, |_| true, &mut effects);
        looks += 1;
    }
    assert_eq!((looks, listeners.len()), (LINGER_HELD_NS / LINGER_NS, 0));
    // Once they are taken, or their clients gone, it ends as others do.
    listeners.join(joining(2, 80)).unwrap();
    listeners.end(session(2), 0, &mut effects);
    listeners.pass_time(LINGER_NS, |_| true, &mut effects);
    assert_eq!(listeners.next_deadline_ns(), Some(2 * LINGER_NS));
    listeners.join(joining(3, 80)).unwrap();
    assert_eq!(listeners.next_deadline_ns(), None);
    listeners.end(session(3), 7, &mut effects);
    listeners.pass_time(7 + LINGER_NS, |_| false, &mut effects);
    assert_eq!(listeners.len(), 0);
}

#[test]
fn a_lasting_one_stays_without_workers_until_it_is_removed() {
    let mut listeners = Listeners::new(LIMITS);
    let id = listeners.create(Holder::user(7), endpoint(80), 7, Rule::RoundRobin).unwrap();
    let again = listeners.create(Holder::user(7), endpoint(80), 7, Rule::RoundRobin);
    assert_eq!(again.unwrap_err().code(), Code::BadState);
    assert_eq!(listeners.next_deadline_ns(), None);
    listeners.has_socket(id, 80);
    let joined = listeners.join(Joining { rule: None, ..joining(1, 80) }).unwrap();
    assert!(joined.listener == id && !joined.brings_socket);
    let mut effects = Vec::new();
    listeners.remove(id, 0, &mut effects);
    // Its worker lives, and no other takes what it has not taken.
    assert_eq!((&effects[..], listeners.worker_count()), (&[Effect::ListenerEnds(id)][..], 0));
}

#[test]
fn a_worker_ends_with_the_last_who_holds_it() {
    let mut listeners = Listeners::new(LIMITS);
    let worker = listeners.join(joining(1, 80)).unwrap().worker;
    assert!(listeners.hold(session(2), 8, worker).is_err());
    listeners.hold(session(2), 7, worker).unwrap();
    let mut effects = Vec::new();
    listeners.end(session(1), 0, &mut effects);
    assert!(effects.is_empty() && listeners.own_worker(session(2), worker).is_ok());
    listeners.leave(session(2), worker, 0, &mut effects).unwrap();
    assert_eq!(effects.len(), 1);
    assert!(listeners.leave(session(2), worker, 0, &mut effects).is_err());
}

#[test]
fn who_is_revoked_loses_its_workers_and_gets_none() {
    let mut listeners = Listeners::new(LIMITS);
    listeners.join(joining(1, 80)).unwrap();
    let mut effects = Vec::new();
    assert_eq!(listeners.revoke(&[session(1)], 0, &mut effects), 1);
    assert!(matches!(effects[..], [Effect::WorkerDismissed { .. }]), "it lives");
    assert_eq!(listeners.join(joining(1, 80)).unwrap_err(), Refusal::Revoked);
    listeners.end(session(1), 0, &mut effects);
    assert!(listeners.join(joining(1, 80)).is_ok(), "another session has its place");
}

#[test]
fn sockets_count_against_whose_the_listener_is_until_it_ends() {
    let mut listeners = Listeners::new(LIMITS);
    let used = |listeners: &Listeners| listeners.quotas()[2].1.used(Holder::user(7)).user;
    let first = listeners.join(joining(1, 80)).unwrap();
    listeners.join(Joining { socket: 5, ..joining(2, 80) }).unwrap();
    listeners.join(joining(3, 80)).unwrap();
    assert_eq!(used(&listeners), 2);
    listeners.remove(first.listener, 0, &mut Vec::new());
    assert_eq!(used(&listeners), 0);
}
