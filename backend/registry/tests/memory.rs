//! The registry in memory: it does what every registry does, and loses what it is told to lose.

mod support;

use heliostat_backend_registry::{
    Event, LeaseId, Limits, Loss, Memory, Operation, Outcome, Registry, SharedStore, Value, Why,
};
use support::{conforms, key, put, User};

fn user(store: &SharedStore, life: u64) -> Memory {
    Memory::new(store.clone(), LeaseId { node: 1, life })
}

#[test]
fn it_conforms() {
    let (store, mut life) = (SharedStore::new(0, Limits::default()), 0);
    conforms(|| {
        life += 1;
        User::new(user(&store, life))
    });
}

fn outcome(registry: &mut Memory, now_ns: u64) -> Option<Outcome> {
    match registry.next_event(now_ns)? {
        Event::Ended { outcome, .. } => Some(outcome),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lost_write_may_have_been_done_and_a_lost_read_was_not() {
    let store = SharedStore::new(0, Limits::default());
    let mut it = user(&store, 1);
    for (loss, is_done) in [(Loss::Requests, false), (Loss::Answers, true)] {
        it.lose(loss);
        it.begin(1, Operation::Write(put("a", 0, "x")), 100);
        assert_eq!(outcome(&mut it, 99), None);
        assert_eq!(outcome(&mut it, 100), Some(Outcome::Unknown(Why::Deadline)));
        it.begin(2, Operation::Get { key: key("a") }, 200);
        assert_eq!(outcome(&mut it, 150), None);
        assert_eq!(outcome(&mut it, 200), Some(Outcome::NotDone(Why::Deadline)));
        it.lose(Loss::None);
        it.begin(3, Operation::Get { key: key("a") }, 300);
        let found = matches!(outcome(&mut it, 250), Some(Outcome::Found(_)));
        assert_eq!(found, is_done);
    }
}

#[test]
fn leases_are_kept_by_their_own_life_alone_and_end_in_time() {
    let store = SharedStore::new(0, Limits::default());
    let (mut old, mut new) = (user(&store, 1), user(&store, 2));
    old.begin(1, Operation::Lease { ttl_ms: 1 }, u64::MAX);
    assert_eq!(outcome(&mut old, 0), Some(Outcome::Done { revision: 0 }));
    new.begin(2, Operation::KeepAlive, u64::MAX);
    assert_eq!(outcome(&mut new, 1), Some(Outcome::NotDone(Why::NoLease)));
    assert_eq!(store.lock().next_ns(), Some(1_000_000));
    old.begin(3, Operation::KeepAlive, u64::MAX);
    assert_eq!(outcome(&mut old, 999_999), Some(Outcome::Done { revision: 0 }));
    assert_eq!(store.lock().next_ns(), Some(1_999_999));
    old.begin(4, Operation::KeepAlive, u64::MAX);
    assert_eq!(outcome(&mut old, 1_999_999), Some(Outcome::NotDone(Why::NoLease)));
}

#[test]
fn tables_have_limits_and_old_changes_are_forgotten() {
    let limits = Limits { records: 2, leases: 1, changes: 2, ttl_ms: 1_000 };
    let store = SharedStore::new(10, limits);
    let mut it = user(&store, 1);
    for (token, at) in ["a", "b", "c"].into_iter().enumerate() {
        it.begin(token as u64, Operation::Write(put(at, 0, "x")), u64::MAX);
    }
    assert_eq!(outcome(&mut it, 0), Some(Outcome::Done { revision: 11 }));
    assert_eq!(outcome(&mut it, 0), Some(Outcome::Done { revision: 12 }));
    let full = Why::Full { what: "records", limit: 2 };
    assert_eq!(outcome(&mut it, 0), Some(Outcome::NotDone(full)));
    it.begin(4, Operation::Write(put("a", 11, "y")), u64::MAX);
    assert_eq!(outcome(&mut it, 0), Some(Outcome::Done { revision: 13 }));
    it.watch(key(""), 11).unwrap();
    assert!(matches!(it.next_event(0), Some(Event::Changed { .. })));
    assert!(matches!(it.next_event(0), Some(Event::Changed { .. })));
    it.watch(key(""), 10).unwrap();
    assert!(matches!(it.next_event(0), Some(Event::Broken { .. })));
    assert!(Value::new(vec![0; 5000]).is_none());
}
