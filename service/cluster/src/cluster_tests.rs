//! The life of members, one event after the other.

use heliostat_abi::cluster::{MemberAddress, MemberState};

use crate::{Cluster, Effect, Ending, Found, Reason, RETRY_NS_MAX, RETRY_NS_MIN};

fn address(node: u64) -> MemberAddress {
    MemberAddress::parse(&format!("tcp:127.0.0.1:{node}")).unwrap()
}

fn cluster() -> Cluster {
    Cluster::new(1, [(1, address(1)), (2, address(2)), (3, address(3))], 0)
}

fn state(cluster: &Cluster, node: u64) -> Option<MemberState> {
    cluster.member(node).map(|member| member.state)
}

fn pass(cluster: &mut Cluster, now_ns: u64) -> Vec<Effect> {
    let mut effects = Vec::new();
    cluster.pass_time(now_ns, &mut effects);
    effects
}

/// A link that a join of ours came to; its number is ten times the life.
fn joined(cluster: &mut Cluster, node: u64, incarnation: u64) -> Vec<Effect> {
    let mut effects = Vec::new();
    let found = Found { node, incarnation, link: incarnation * 10, is_ours: true };
    cluster.joined(found, 0, 0, &mut effects);
    effects
}

#[test]
fn the_others_of_the_list_are_sought_at_once_and_once() {
    let mut cluster = cluster();
    let join = |node| Effect::Join { node, address: address(node) };
    assert_eq!(pass(&mut cluster, 0), [join(2), join(3)]);
    assert_eq!((pass(&mut cluster, 1), cluster.next_ns()), (vec![], None));
    assert_eq!(state(&cluster, 2), Some(MemberState::Joining));
}

#[test]
fn waits_double_up_to_the_longest_and_a_join_begins_anew() {
    let mut cluster = cluster();
    pass(&mut cluster, 0);
    let mut waits = Vec::new();
    let mut now_ns = 0;
    for _ in 0..10 {
        cluster.not_joined(2, now_ns, 0);
        let next_ns = cluster.member(2).unwrap().retry_ns.unwrap();
        waits.push(next_ns - now_ns);
        now_ns = next_ns;
        assert_eq!(state(&cluster, 2), Some(MemberState::Away));
        pass(&mut cluster, now_ns);
    }
    assert_eq!(waits[..3], [RETRY_NS_MIN / 2, RETRY_NS_MIN, RETRY_NS_MIN * 2]);
    assert_eq!(waits[9], RETRY_NS_MAX / 2);
    joined(&mut cluster, 2, 5);
    cluster.lost(2, 5, Ending::Lost, now_ns, 0);
    let retry_ns = cluster.member(2).unwrap().retry_ns;
    assert_eq!(
        (state(&cluster, 2), retry_ns),
        (Some(MemberState::Lost), Some(now_ns + RETRY_NS_MIN / 2))
    );
}

#[test]
fn a_node_that_said_goodbye_comes_back_by_itself_or_not_at_all() {
    let mut cluster = cluster();
    joined(&mut cluster, 2, 5);
    assert!(cluster.lost(2, 5, Ending::Left, 10, 0));
    assert_eq!(state(&cluster, 2), Some(MemberState::Left));
    assert_eq!(pass(&mut cluster, u64::MAX).len(), 1, "node 3 alone is sought");
    assert_eq!(joined(&mut cluster, 2, 6), []);
    assert_eq!(state(&cluster, 2), Some(MemberState::Joined));
}

#[test]
fn a_node_that_was_left_by_command_is_left_again_until_a_command_joins_it() {
    let (mut cluster, mut effects) = (cluster(), Vec::new());
    joined(&mut cluster, 2, 5);
    cluster.leave(2, 10, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Leave { node: 2 }]);
    assert!(!cluster.lost(2, 5, Ending::Lost, 11, 0), "its end is no news");
    assert_eq!(joined(&mut cluster, 2, 6), [Effect::LeaveLink { link: 60 }]);
    assert_eq!(state(&cluster, 2), Some(MemberState::Left));
    effects.clear();
    cluster.join(2, MemberAddress::NONE, 20, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Join { node: 2, address: address(2) }]);
    assert_eq!(joined(&mut cluster, 2, 6), []);
    assert_eq!(cluster.epoch(), 3);
}

#[test]
fn an_earlier_life_is_left_unless_a_command_joins_it() {
    let (mut cluster, mut effects) = (cluster(), Vec::new());
    joined(&mut cluster, 2, 5);
    cluster.lost(2, 5, Ending::Lost, 10, 0);
    assert_eq!(joined(&mut cluster, 2, 4), [Effect::LeaveLink { link: 40 }]);
    assert_eq!(state(&cluster, 2), Some(MemberState::Lost));
    cluster.join(2, MemberAddress::NONE, 20, &mut effects).unwrap();
    assert_eq!(joined(&mut cluster, 2, 4), []);
}

#[test]
fn a_join_that_came_to_an_earlier_life_is_tried_again() {
    let mut cluster = cluster();
    joined(&mut cluster, 2, 5);
    cluster.lost(2, 5, Ending::Lost, 10, 0);
    let due_ns = cluster.next_ns().unwrap_or(0).max(RETRY_NS_MIN);
    pass(&mut cluster, due_ns);
    assert_eq!(state(&cluster, 2), Some(MemberState::Joining));
    // One that the other side began leaves our own join under way.
    let mut effects = Vec::new();
    let theirs = Found { node: 2, incarnation: 4, link: 3, is_ours: false };
    assert!(!cluster.joined(theirs, due_ns, 0, &mut effects));
    assert_eq!(effects, [Effect::LeaveLink { link: 3 }]);
    assert_eq!(state(&cluster, 2), Some(MemberState::Joining));
    assert_eq!(joined(&mut cluster, 2, 4), [Effect::LeaveLink { link: 40 }]);
    assert_eq!(state(&cluster, 2), Some(MemberState::Lost));
    assert!(cluster.member(2).unwrap().retry_ns.is_some(), "it is sought again");
}

#[test]
fn a_guest_is_a_member_while_it_is_joined() {
    let (mut cluster, mut effects) = (cluster(), Vec::new());
    assert_eq!(joined(&mut cluster, 9, 1), []);
    assert_eq!((state(&cluster, 9), cluster.joined_count()), (Some(MemberState::Joined), 1));
    let refused = cluster.join(8, MemberAddress::NONE, 1, &mut effects);
    assert_eq!(refused, Err(Reason::NotFound { node: 8 }.into()));
    assert!(cluster.lost(9, 1, Ending::Lost, 1, 0));
    assert_eq!(state(&cluster, 9), None);
}

#[test]
fn after_the_end_of_the_thread_nobody_is_sought_and_a_join_is_refused() {
    let (mut cluster, mut effects) = (cluster(), Vec::new());
    joined(&mut cluster, 2, 5);
    cluster.end(10);
    assert!(cluster.is_ended());
    let refused = cluster.join(2, MemberAddress::NONE, 20, &mut effects);
    assert_eq!(refused, Err(Reason::Ended.into()));
    cluster.leave(3, 20, &mut effects).unwrap();
    for node in [2, 3] {
        assert_eq!(state(&cluster, node), Some(MemberState::Left));
    }
    assert_eq!((pass(&mut cluster, u64::MAX), cluster.next_ns()), (vec![], None));
    // With another thread 2 is sought again; 3 was left by command meanwhile.
    cluster.begin_again(30);
    assert!(!cluster.is_ended());
    assert_eq!((state(&cluster, 2), cluster.next_ns()), (Some(MemberState::Lost), Some(30)));
    assert_eq!(state(&cluster, 3), Some(MemberState::Left));
    assert_eq!(pass(&mut cluster, 30).len(), 1);
}

#[test]
fn a_join_by_command_may_give_a_new_node_or_address() {
    let (mut cluster, mut effects) = (cluster(), Vec::new());
    cluster.join(9, address(9), 1, &mut effects).unwrap();
    cluster.join(2, address(22), 1, &mut effects).unwrap();
    let join = |node, at| Effect::Join { node, address: address(at) };
    assert_eq!(effects, [join(9, 9), join(2, 22)]);
    assert_eq!(cluster.join(1, address(1), 1, &mut effects), Err(Reason::Here.into()));
    cluster.not_joined(9, 2, 0);
    assert!(cluster.member(9).unwrap().retry_ns.is_some(), "it is sought from now on");
}
