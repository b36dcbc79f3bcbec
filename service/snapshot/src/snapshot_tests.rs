//! The rules of the snapshot service, one by one.

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::snapshot::memory::CONSUMERS_MAX;
use heliostat_abi::snapshot::region::{Change, Presence, RegionName};
use heliostat_service_grant::{Full, Holder, Shares};

use crate::*;

const LIMITS: Limits = Limits {
    regions_per_session: 2,
    attachments_per_session: 70,
    regions: Shares::whole(100),
    attachments: Shares { user: 150, ..Shares::whole(1000) },
};

const USER: Holder = Holder::user(7);

fn session(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

fn key(name: &str) -> Key {
    Key { uid: 7, name: RegionName::parse(name).unwrap() }
}

/// A service where session 0 of user 7 has named region `a`.
fn published() -> (Snapshot, ObjectId, Vec<Effect>) {
    let mut service = Snapshot::new(LIMITS);
    let named = service.publish(session(0), USER, key("a")).unwrap();
    assert_eq!(named.generation, 1);
    (service, named.region, Vec::new())
}

fn joined(consumer: ObjectId) -> Change {
    Change { consumer, state: Presence::Joined }
}

fn left(consumer: ObjectId) -> Change {
    Change { consumer, state: Presence::Left }
}

#[test]
fn a_living_name_is_refused_and_a_freed_one_counts_on() {
    let (mut service, region, mut effects) = published();
    assert_eq!(service.publish(session(1), USER, key("a")), Err(Reason::Taken { region }.into()));
    assert_eq!(service.publish(session(0), USER, key("a")), Err(Reason::Taken { region }.into()));
    service.end(session(0), &mut effects);
    assert_eq!(effects, [Effect::RegionFreed(region)]);
    assert_eq!(service.resolve(&key("a")), None);
    assert_eq!(service.publish(session(1), USER, key("a")).unwrap().generation, 2);
}

#[test]
fn a_name_is_its_users() {
    let (mut service, region, _) = published();
    let other = Key { uid: 8, ..key("a") };
    let named = service.publish(session(1), USER, other.clone()).unwrap();
    assert_eq!((named.generation, service.resolve(&other)), (1, Some(named)));
    assert_eq!(service.resolve(&key("a")).map(|named| named.region), Some(region));
}

#[test]
fn the_producer_is_told_of_each_consumer_once() {
    let (mut service, region, mut effects) = published();
    let one = service.attach(session(1), USER, region, &mut effects).unwrap();
    let two = service.attach(session(2), USER, region, &mut effects).unwrap();
    assert_eq!(effects, [Effect::RegionChanged(region); 2]);
    let batch = service.changes(session(0), region).unwrap();
    assert_eq!(batch, Batch { changes: vec![joined(one), joined(two)], more: false });
    service.detach(session(1), region, one, &mut effects).unwrap();
    let three = service.attach(session(3), USER, region, &mut effects).unwrap();
    let batch = service.changes(session(0), region).unwrap();
    assert_eq!(batch.changes, [left(one), joined(three)]);
    assert_eq!(service.changes(session(0), region).unwrap().changes, []);
}

#[test]
fn who_came_and_went_between_two_questions_is_not_mentioned() {
    let (mut service, region, mut effects) = published();
    let one = service.attach(session(1), USER, region, &mut effects).unwrap();
    effects.clear();
    service.end(session(1), &mut effects);
    assert_eq!(effects, [Effect::RegionChanged(region), Effect::ConsumerFreed(one)]);
    assert_eq!(service.changes(session(0), region).unwrap().changes, []);
}

#[test]
fn only_the_producer_asks_and_unpublishes_and_only_the_consumer_detaches() {
    let (mut service, region, mut effects) = published();
    let one = service.attach(session(1), USER, region, &mut effects).unwrap();
    let foreign = Refusal::from(Reason::NotProducer { region });
    assert_eq!(service.changes(session(1), region), Err(foreign));
    assert_eq!(service.unpublish(session(1), region, &mut effects), Err(foreign));
    let not_attached = Err(Refusal::from(Reason::NotAttached { consumer: one }));
    assert_eq!(service.detach(session(0), region, one, &mut effects), not_attached);
    let elsewhere = ObjectId { index: 5, generation: 1 };
    assert_eq!(service.detach(session(1), elsewhere, one, &mut effects), not_attached);
}

#[test]
fn limits_are_told() {
    let (mut service, region, mut effects) = published();
    let full = |thing, side, limit| Refusal::Full(Full::of(thing, side, limit));
    service.publish(session(0), USER, key("b")).unwrap();
    let third = service.publish(session(0), USER, key("c"));
    assert_eq!(third, Err(full(Thing::Regions, Side::Session, 2)));
    for _ in 0..CONSUMERS_MAX {
        service.attach(session(1), USER, region, &mut effects).unwrap();
    }
    let one_more = service.attach(session(2), USER, region, &mut effects);
    assert_eq!(one_more, Err(full(Thing::Attachments, Side::Object, 64)));
    let other = service.resolve(&key("b")).unwrap().region;
    for _ in 0..LIMITS.attachments_per_session - CONSUMERS_MAX {
        service.attach(session(1), USER, other, &mut effects).unwrap();
    }
    let one_more = service.attach(session(1), USER, other, &mut effects);
    assert_eq!(one_more, Err(full(Thing::Attachments, Side::Session, 70)));
}

#[test]
fn consumers_outlive_their_region_and_keep_its_count() {
    let (mut service, region, mut effects) = published();
    let one = service.attach(session(1), USER, region, &mut effects).unwrap();
    service.changes(session(0), region).unwrap();
    effects.clear();
    service.unpublish(session(0), region, &mut effects).unwrap();
    assert_eq!(effects, [Effect::RegionFreed(region)]);
    // More names than are kept come and go.
    for number in 0..TOMBSTONES_MAX + 1 {
        let named = service.publish(session(2), USER, key(&format!("n{number}"))).unwrap();
        service.unpublish(session(2), named.region, &mut effects).unwrap();
    }
    assert_eq!(service.names.len(), TOMBSTONES_MAX + 1);
    assert_eq!(service.publish(session(2), USER, key("n0")).unwrap().generation, 1);
    assert_eq!(service.publish(session(3), USER, key("a")).unwrap().generation, 2);
    effects.clear();
    service.detach(session(1), region, one, &mut effects).unwrap();
    assert_eq!(effects, [Effect::ConsumerFreed(one)]);
}

#[test]
fn a_revoked_session_loses_all_and_gets_nothing() {
    let (mut service, region, mut effects) = published();
    service.attach(session(1), USER, region, &mut effects).unwrap();
    assert_eq!(service.revoke(&[session(1), session(0)], &mut effects), 2);
    assert_eq!((service.region_count(), service.consumer_count()), (0, 0));
    assert_eq!(service.publish(session(0), USER, key("a")), Err(Refusal::Revoked));
    let named = service.publish(session(2), USER, key("a")).unwrap();
    assert_eq!(named.generation, 2);
    assert_eq!(service.attach(session(1), USER, named.region, &mut effects), Err(Refusal::Revoked));
}
