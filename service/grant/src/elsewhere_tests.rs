use super::*;

const SHARES: Shares = Shares { all: 100, reserve: 0, user: 10, trusted: 100, sealed: 10 };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct One(Via, bool);

impl Granted for One {
    fn via(&self) -> Via {
        self.0
    }

    fn is_lost(&self) -> bool {
        self.1
    }

    fn lose(&mut self) {
        self.1 = true;
    }
}

fn id(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

fn one(node: u64) -> One {
    One(Via { node, link: 7 }, false)
}

fn none_yet() -> (Elsewhere<One>, Holder) {
    (Elsewhere::new(Thing::MemoryHandles, 8, SHARES), Holder::user(1000))
}

#[test]
fn what_a_node_granted_is_given_back_once() {
    let (mut all, user) = none_yet();
    let first = all.insert(id(5), user, one(1)).unwrap();
    let second = all.insert(id(5), user, one(2)).unwrap();
    assert!(first != second && place_elsewhere(first).is_some());
    assert_eq!(all.get(id(6), first), None, "another session's");
    assert_eq!(all.remove(id(5), first), Some(one(1)));
    assert_eq!(all.remove(id(5), first), None);
    assert_eq!((all.count(), all.by_node().get(&2)), (1, Some(&1)));
    assert_eq!(all.end(id(5)), [one(2)]);
    assert!(all.end(id(5)).is_empty());
    assert_eq!(all.quota.check(user, 10), Ok(()), "nothing stays counted");
}

#[test]
fn of_a_lost_node_nobody_is_told_and_what_it_granted_stays_named() {
    let (mut all, user) = none_yet();
    let first = all.insert(id(5), user, one(1)).unwrap();
    all.insert(id(5), user, one(2)).unwrap();
    let lost = [(1, 7), (1, 7), (2, 6)].map(|(node, link)| all.lose(Via { node, link }));
    assert_eq!(lost, [1, 0, 0]);
    assert!(all.get(id(5), first).is_some_and(Granted::is_lost));
    assert_eq!(all.end(id(5)), [one(2)]);
}

#[test]
fn limits_of_a_session_and_of_a_user_hold() {
    let (mut all, user) = none_yet();
    for _ in 0..8 {
        all.insert(id(5), user, one(1)).unwrap();
    }
    let of_session = Full::of(Thing::MemoryHandles, Side::Session, 8);
    assert_eq!(all.insert(id(5), user, one(1)), Err(of_session));
    all.insert(id(6), user, one(1)).unwrap();
    all.insert(id(6), user, one(1)).unwrap();
    assert!(all.insert(id(6), user, one(1)).is_err(), "the user's are 10");
    assert!(all.insert(id(7), Holder::user(1), one(1)).is_ok());
    all.set_limits(1, SHARES);
    let of_session = Full::of(Thing::MemoryHandles, Side::Session, 1);
    assert_eq!(all.check(id(7), Holder::user(1)), Err(of_session));
}
