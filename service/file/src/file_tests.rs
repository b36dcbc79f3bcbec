//! The rules of the file service, one by one.

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Full, Holder, Shares};

use crate::pause::Pauses;
use crate::*;

const LIMITS: Limits = Limits { leases_per_session: 2, leases: Shares::whole(3) };

const USER: Holder = Holder::user(7);
const MS: u64 = 1_000_000;

fn session(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

fn key(inode: u64) -> FileKey {
    FileKey { device: 1, inode }
}

/// Asks, and the kernel grants what is asked of it.
fn lease(service: &mut File, by: u32, inode: u64, now_ns: u64) -> Result<ObjectId, Refusal> {
    let mut effects = Vec::new();
    let lease = service.ask(session(by), USER, key(inode), now_ns, &mut effects)?;
    if effects == [Effect::TakeLease(lease)] {
        effects.clear();
        service.taken(lease, &mut effects);
        assert_eq!(effects, [Effect::Active(lease)]);
    }
    Ok(lease)
}

#[test]
fn sessions_share_a_lease_and_the_last_one_ends_it() {
    let mut service = File::new(LIMITS);
    let mut effects = Vec::new();
    let first = lease(&mut service, 0, 7, 0).unwrap();
    assert_eq!(lease(&mut service, 1, 7, 0), Ok(first));
    assert_eq!(lease(&mut service, 1, 7, 0), Ok(first));
    // It has it twice.
    for _ in 0..2 {
        assert_eq!(service.holding(session(1)), 1);
        assert_eq!(service.end_lease(session(1), first, &mut effects), Ok(()));
        assert_eq!(effects, []);
    }
    let again = service.end_lease(session(1), first, &mut effects);
    assert_eq!(again, Err(Reason::NotHeld { lease: first }.into()));
    service.end(session(0), &mut effects);
    assert_eq!(effects, [Effect::Freed(first), Effect::GiveBack(first)]);
    assert_ne!(lease(&mut service, 0, 7, 0), Ok(first));
}

#[test]
fn a_lease_that_the_kernel_refuses_leaves_nothing() {
    let mut service = File::new(LIMITS);
    let mut effects = Vec::new();
    let id = service.ask(session(0), USER, key(7), 0, &mut effects).unwrap();
    let meanwhile = service.ask(session(1), USER, key(7), 0, &mut effects);
    assert_eq!(meanwhile, Err(Reason::Taking { lease: id }.into()));
    service.not_taken(id);
    assert_eq!((service.lease_count(), service.holding(session(0))), (0, 0));
    lease(&mut service, 1, 7, 0).unwrap();
}

#[test]
fn a_broken_lease_is_over_for_all_and_its_file_is_left_alone() {
    let mut service = File::new(LIMITS);
    let mut effects = Vec::new();
    let id = lease(&mut service, 0, 7, 0).unwrap();
    lease(&mut service, 1, 7, 0).unwrap();
    service.broken(id, 100 * MS, &mut effects);
    assert_eq!(effects, [Effect::Revoked(id), Effect::GiveBack(id)]);
    assert_eq!((service.holding(session(0)), service.holding(session(1))), (0, 0));
    let early = lease(&mut service, 0, 7, 101 * MS);
    assert_eq!(early, Err(Reason::Pause { left_ns: 9 * MS }.into()));
    lease(&mut service, 0, 8, 101 * MS).unwrap();
    lease(&mut service, 0, 7, 110 * MS).unwrap();
}

#[test]
fn limits_are_told() {
    let mut service = File::new(LIMITS);
    let full = |side, limit| Err(Full::of(Thing::Leases, side, limit).into());
    lease(&mut service, 0, 1, 0).unwrap();
    lease(&mut service, 0, 2, 0).unwrap();
    assert_eq!(lease(&mut service, 0, 3, 0), full(Side::Session, 2));
    lease(&mut service, 1, 3, 0).unwrap();
    assert_eq!(lease(&mut service, 1, 4, 0), full(Side::User, 3));
    // What is there already costs the node nothing.
    lease(&mut service, 1, 1, 0).unwrap();
}

#[test]
fn a_revoked_session_takes_its_leases_from_all_and_gets_nothing() {
    let mut service = File::new(LIMITS);
    let mut effects = Vec::new();
    let id = lease(&mut service, 0, 7, 0).unwrap();
    lease(&mut service, 1, 7, 0).unwrap();
    assert_eq!(service.revoke(&[session(0)], &mut effects), 1);
    assert_eq!(effects, [Effect::Revoked(id), Effect::GiveBack(id)]);
    assert_eq!(lease(&mut service, 0, 7, 0), Err(Refusal::Revoked));
    lease(&mut service, 1, 7, 0).unwrap();
}

#[test]
fn pauses_double_up_to_the_longest_and_are_forgiven() {
    let mut pauses = Pauses::default();
    let (mut now_ns, mut wanted) = (0, PAUSE_SHORTEST_NS);
    for _ in 0..15 {
        pauses.broken(key(7), now_ns);
        assert_eq!(pauses.left_ns(key(7), now_ns), Some(wanted));
        now_ns += wanted;
        assert_eq!(pauses.left_ns(key(7), now_ns), None);
        wanted = (wanted * 2).min(PAUSE_LONGEST_NS);
    }
    now_ns += FORGIVEN_AFTER * PAUSE_LONGEST_NS;
    pauses.broken(key(7), now_ns);
    assert_eq!(pauses.left_ns(key(7), now_ns), Some(PAUSE_SHORTEST_NS));
}

#[test]
fn the_file_broken_longest_ago_is_forgotten_first() {
    let mut pauses = Pauses::default();
    (0..PAUSES_MAX as u64).for_each(|inode| pauses.broken(key(inode), 0));
    pauses.broken(key(0), 1);
    pauses.broken(key(u64::MAX), 1);
    assert_eq!((pauses.left_ns(key(1), 1), pauses.len()), (None, PAUSES_MAX));
    assert!(pauses.left_ns(key(0), 1).is_some());
}
