use super::*;

const SHARES: Shares = Shares { all: 100, reserve: 0, user: 10, trusted: 100, sealed: 10 };

fn id(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

fn remote(node: u64) -> Remote {
    let there = PeerHandle { session: id(1), handle: id(2) };
    let (region, rights) = (id(3), Rights::READ);
    let (user, is_restricted, is_lost) = (1000, false, false);
    Remote { node, link: 7, there, region, rights, user, is_restricted, is_lost }
}

#[test]
fn what_a_node_granted_is_given_back_once() {
    let mut remotes = Remotes::new(8, SHARES);
    let user = Holder::user(1000);
    let one = remotes.insert(id(5), user, remote(1)).unwrap();
    let two = remotes.insert(id(5), user, remote(2)).unwrap();
    assert!(one != two && place_elsewhere(one).is_some());
    assert_eq!(remotes.get(id(6), one), None, "another session's");
    assert_eq!(remotes.remove(id(5), one), Some(remote(1)));
    assert_eq!(remotes.remove(id(5), one), None);
    assert_eq!(remotes.end(id(5)), [remote(2)]);
    assert!(remotes.end(id(5)).is_empty());
    assert_eq!(remotes.quota.check(user, 10), Ok(()), "nothing stays counted");
}

#[test]
fn of_a_lost_node_nobody_is_told_and_the_handles_stay_named() {
    let mut remotes = Remotes::new(8, SHARES);
    let user = Holder::user(1000);
    let one = remotes.insert(id(5), user, remote(1)).unwrap();
    remotes.insert(id(5), user, remote(2)).unwrap();
    assert_eq!((remotes.lose(1, 7), remotes.lose(1, 7), remotes.lose(2, 6)), (1, 0, 0));
    assert!(remotes.get(id(5), one).is_some_and(|it| it.is_lost));
    assert_eq!(remotes.end(id(5)), [remote(2)]);
}

#[test]
fn limits_of_a_session_and_of_a_user_hold() {
    let mut remotes = Remotes::new(8, SHARES);
    let user = Holder::user(1000);
    for _ in 0..8 {
        remotes.insert(id(5), user, remote(1)).unwrap();
    }
    let of_session = Full::of(Thing::MemoryHandles, Side::Session, 8);
    assert_eq!(remotes.insert(id(5), user, remote(1)), Err(of_session));
    remotes.insert(id(6), user, remote(1)).unwrap();
    remotes.insert(id(6), user, remote(1)).unwrap();
    assert!(remotes.insert(id(6), user, remote(1)).is_err(), "the user's are 10");
    assert!(remotes.insert(id(7), Holder::user(1), remote(1)).is_ok());
}
