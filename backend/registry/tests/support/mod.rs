//! What every registry does, whichever keeps the records; run over each of them.

#![allow(dead_code)]

pub mod etcd_server;
pub mod secure_etcd;

use std::time::Duration;

use heliostat_backend_registry::{
    Change, Event, Guard, Key, Operation, Outcome, Record, Registry, Value, WatchId, Why, Write,
};
use heliostat_base::clock::monotonic_ns;

const SECOND: u64 = 1_000_000_000;

/// A user of a registry, for a test that waits.
pub struct User {
    pub registry: Box<dyn Registry>,
    last: u64,
    changes: Vec<(WatchId, Change)>,
    broken: Vec<WatchId>,
}

pub fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

pub fn value(text: &str) -> Value {
    Value::new(text.as_bytes().to_vec()).unwrap()
}

pub fn put(at: &str, expected: u64, holds: &str) -> Write {
    let value = Some(value(holds));
    Write { key: key(at), expected, value, is_leased: false, guard: None }
}

impl User {
    pub fn new(registry: impl Registry + 'static) -> User {
        let (changes, broken) = (Vec::new(), Vec::new());
        User { registry: Box::new(registry), last: 0, changes, broken }
    }

    pub fn ask(&mut self, operation: Operation) -> Outcome {
        self.ask_for(operation, 10 * SECOND)
    }

    pub fn ask_for(&mut self, operation: Operation, ns: u64) -> Outcome {
        self.last += 1;
        let (token, deadline_ns) = (self.last, monotonic_ns() + ns);
        self.registry.begin(token, operation, deadline_ns);
        loop {
            if let Some((of, outcome)) = self.next() {
                assert_eq!(of, token);
                return outcome;
            }
            assert!(monotonic_ns() < deadline_ns + 10 * SECOND, "nothing became of it");
        }
    }

    /// Hears one event, or waits a little.
    fn next(&mut self) -> Option<(u64, Outcome)> {
        match self.registry.next_event(monotonic_ns()) {
            Some(Event::Ended { token, outcome }) => return Some((token, outcome)),
            Some(Event::Changed { watch, change }) => self.changes.push((watch, change)),
            Some(Event::Broken { watch, .. }) => self.broken.push(watch),
            None => std::thread::sleep(Duration::from_millis(2)),
        }
        None
    }

    pub fn write(&mut self, write: Write) -> Outcome {
        self.ask(Operation::Write(write))
    }

    pub fn done(&mut self, write: Write) -> u64 {
        match self.write(write) {
            Outcome::Done { revision } => revision,
            other => panic!("{other:?}"),
        }
    }

    pub fn get(&mut self, at: &str) -> Option<Record> {
        match self.ask(Operation::Get { key: key(at) }) {
            Outcome::Found(record) => Some(record),
            Outcome::Absent { .. } => None,
            other => panic!("{other:?}"),
        }
    }

    pub fn list(&mut self, prefix: &str, after: Option<&str>) -> (Vec<Record>, u64, bool) {
        let (prefix, after) = (key(prefix), after.map(key));
        match self.ask(Operation::List { prefix, after }) {
            Outcome::Listed { records, revision, has_more } => (records, revision, has_more),
            other => panic!("{other:?}"),
        }
    }

    /// Waits for so many changes.
    pub fn changes(&mut self, count: usize) -> Vec<Change> {
        let until_ns = monotonic_ns() + 30 * SECOND;
        while self.changes.len() < count {
            assert!(self.next().is_none() && monotonic_ns() < until_ns, "{:?}", self.changes);
        }
        std::mem::take(&mut self.changes).into_iter().map(|(_, change)| change).collect()
    }

    pub fn await_broken(&mut self) {
        let until_ns = monotonic_ns() + 30 * SECOND;
        while self.broken.is_empty() {
            assert!(self.next().is_none() && monotonic_ns() < until_ns);
        }
    }
}

/// All of it, over users of one registry that is empty.
pub fn conforms(mut user: impl FnMut() -> User) {
    writes_are_done_where_the_revision_is_expected(&mut user());
    lists_are_in_order_and_in_pages(&mut user());
    guards_keep_writers_out(&mut user());
    watches_tell_every_change_once(&mut user(), &mut user());
    leases_end_with_what_they_hold(&mut user(), &mut user());
}

fn writes_are_done_where_the_revision_is_expected(user: &mut User) {
    assert_eq!(user.get("a/1"), None);
    let first = user.done(put("a/1", 0, "x"));
    let record = Record { key: key("a/1"), revision: first, value: value("x") };
    assert_eq!(user.get("a/1"), Some(record.clone()));
    let conflict = Outcome::Conflict { found: Some(record) };
    assert_eq!(user.write(put("a/1", 0, "y")), conflict);
    assert_eq!(user.write(put("a/1", first + 1, "y")), conflict);
    let second = user.done(put("a/1", first, "y"));
    assert!(second > first);
    let delete = |expected| Write { value: None, ..put("a/1", expected, "") };
    assert!(matches!(user.write(delete(first)), Outcome::Conflict { found: Some(_) }));
    assert!(user.done(delete(second)) > second);
    assert_eq!(user.get("a/1"), None);
    assert_eq!(user.write(put("a/1", second, "z")), Outcome::Conflict { found: None });
    let empty = Value::new(Vec::new());
    user.done(Write { value: empty, ..put("a/2", 0, "") });
    assert_eq!(user.get("a/2").map(|it| it.value.bytes().len()), Some(0));
    let late = user.ask_for(Operation::Write(put("a/3", 0, "late")), 0);
    assert!(matches!(late, Outcome::NotDone(_)), "{late:?}");
    assert_eq!(user.get("a/3"), None);
}

fn lists_are_in_order_and_in_pages(user: &mut User) {
    let mut last = 0;
    for at in (0..300).rev() {
        last = user.done(put(&format!("list/{at:03}"), 0, "x"));
    }
    user.done(put("lisu", 0, "x"));
    let (records, revision, has_more) = user.list("list/", None);
    assert!(has_more && records.len() == heliostat_backend_registry::LISTED_MAX);
    assert!(revision >= last);
    let behind = records[records.len() - 1].key.to_string();
    let (rest, _, has_more) = user.list("list/", Some(&behind));
    let names: Vec<_> = records.iter().chain(&rest).map(|it| it.key.to_string()).collect();
    let wanted: Vec<_> = (0..300).map(|at| format!("list/{at:03}")).collect();
    assert_eq!((names, has_more), (wanted, false));
    assert_eq!(user.list("nothing/", None).0, []);
}

fn guards_keep_writers_out(user: &mut User) {
    let me = user.done(put("guard/me", 0, "alive"));
    let guarded = |expected, revision| {
        let guard = Some(Guard { key: key("guard/me"), revision });
        Write { guard, ..put("guard/it", expected, "x") }
    };
    let first = user.done(guarded(0, me));
    assert_eq!(user.write(guarded(first, me + 1)), Outcome::Unguarded);
    assert!(matches!(user.write(guarded(0, me)), Outcome::Conflict { found: Some(_) }));
    user.done(Write { value: None, ..put("guard/me", me, "") });
    assert_eq!(user.write(guarded(first, me)), Outcome::Unguarded);
    assert_eq!(user.get("guard/it").map(|it| it.revision), Some(first));
}

fn watches_tell_every_change_once(user: &mut User, other: &mut User) {
    let first = user.done(put("watch/a", 0, "1"));
    other.done(put("elsewhere", 0, "1"));
    let second = other.done(put("watch/b", 0, "2"));
    let watch = user.registry.watch(key("watch/"), first).unwrap();
    let third = other.done(Write { value: None, ..put("watch/a", first, "") });
    let told = user.changes(2);
    let change = |at: &str, revision, holds: Option<&str>| Change {
        key: key(at),
        revision,
        value: holds.map(value),
    };
    assert_eq!(told, [change("watch/b", second, Some("2")), change("watch/a", third, None)]);
    user.registry.unwatch(watch);
    other.done(put("watch/c", 0, "3"));
    let again = user.registry.watch(key("watch/c"), third).unwrap();
    assert_eq!(user.changes(1)[0].key, key("watch/c"));
    user.registry.unwatch(again);
    // A revision that the registry has not reached is of another registry.
    user.registry.watch(key("watch/"), u64::from(u32::MAX) << 31).unwrap();
    user.await_broken();
}

fn leases_end_with_what_they_hold(user: &mut User, other: &mut User) {
    let leased = |at: &str| Write { is_leased: true, ..put(at, 0, "x") };
    assert_eq!(user.write(leased("lease/1")), Outcome::NotDone(Why::NoLease));
    assert_eq!(user.ask(Operation::KeepAlive), Outcome::NotDone(Why::NoLease));
    let is_done = |outcome: Outcome| matches!(outcome, Outcome::Done { .. });
    assert!(is_done(user.ask(Operation::Lease { ttl_ms: 60_000 })));
    let first = user.done(leased("lease/1"));
    user.done(put("lease/2", 0, "stays"));
    assert!(is_done(user.ask(Operation::KeepAlive)));
    other.registry.watch(key("lease/"), first).unwrap();
    // Another lease in its place.
    assert!(is_done(user.ask(Operation::Lease { ttl_ms: 1_000 })));
    assert_eq!(other.get("lease/1"), None);
    let third = user.done(leased("lease/3"));
    let told = other.changes(4);
    let ends: Vec<_> = told.iter().filter(|it| it.value.is_none()).map(|it| &it.key).collect();
    // The second ran out by itself.
    assert_eq!(ends, [&key("lease/1"), &key("lease/3")]);
    assert!(told[3].revision > third);
    assert_eq!(user.ask(Operation::KeepAlive), Outcome::NotDone(Why::NoLease));
    assert_eq!(user.get("lease/2").map(|it| it.value), Some(value("stays")));
    assert!(is_done(user.ask(Operation::Lease { ttl_ms: 60_000 })));
    user.done(leased("lease/4"));
    assert!(is_done(user.ask(Operation::EndLease)));
    assert_eq!(other.get("lease/4"), None);
}
