//! The roll, one event after the other.

use heliostat_abi::cluster::{MemberAddress, MemberState, RegisteredMember};

use crate::{Cluster, Effect, Ending, Found};

fn named(node: u64, incarnation: u64) -> RegisteredMember {
    let address = MemberAddress::parse(&format!("tcp:127.0.0.1:{node}")).unwrap();
    RegisteredMember { node, incarnation, address }
}

fn found(node: u64, incarnation: u64) -> Found {
    Found { node, incarnation, link: node * 100 + incarnation, is_ours: false }
}

/// Node 1 of a cluster that knows nobody but by its registry.
struct World {
    cluster: Cluster,
    effects: Vec<Effect>,
}

impl World {
    fn new() -> World {
        let mut cluster = Cluster::new(1, [], 0);
        cluster.use_registry();
        World { cluster, effects: Vec::new() }
    }

    fn joined(&mut self, found: Found) -> bool {
        self.cluster.joined(found, 0, 0, &mut self.effects)
    }

    fn registered(&mut self, it: RegisteredMember, revision: u64) -> Vec<Effect> {
        self.cluster.registered(it, revision, 0, &mut self.effects);
        std::mem::take(&mut self.effects)
    }

    fn dead(&mut self, node: u64, revision: u64) -> Vec<Effect> {
        self.cluster.declared_dead(node, revision, 0, &mut self.effects);
        std::mem::take(&mut self.effects)
    }

    fn came_in(&mut self, revision: u64) -> Vec<Effect> {
        self.cluster.came_in(7, revision, &mut self.effects);
        std::mem::take(&mut self.effects)
    }

    fn state(&self, node: u64) -> Option<MemberState> {
        self.cluster.member(node).map(|it| it.state)
    }
}

#[test]
fn a_link_waits_until_the_registry_names_that_life_and_this_node_is_in() {
    let mut world = World::new();
    assert!(!world.joined(found(2, 5)), "nothing is known yet");
    assert!(world.cluster.is_waiting(205) && world.effects.is_empty());
    assert_eq!(world.registered(named(2, 5), 10), []);
    assert_eq!(world.came_in(11), [Effect::Admit(found(2, 5))]);
    assert!(world.joined(found(2, 5)), "as the daemon tells it again");
    assert!(!world.joined(found(3, 1)));
    assert_eq!(world.registered(named(3, 1), 12), [Effect::Admit(found(3, 1))]);
    assert_eq!(world.cluster.epoch(), 12);
    assert_eq!(world.cluster.registered_count(), 3);
}

#[test]
fn a_join_that_ends_while_another_link_waits_is_not_tried_again() {
    let mut world = World::new();
    world.came_in(1);
    let address = named(2, 5).address;
    world.cluster.join(2, address, 0, &mut world.effects).unwrap();
    assert!(!world.joined(found(2, 5)), "the registry does not name it yet");
    world.cluster.not_joined(2, 0, 0);
    assert_eq!((world.state(2), world.cluster.next_ns()), (Some(MemberState::Joining), None));
    assert!(world.cluster.waiting_lost(205, 0, 0));
    assert!(world.cluster.next_ns().is_some(), "it is sought again");
}

#[test]
fn who_is_declared_dead_is_left_though_the_link_works_and_does_not_come_back() {
    let mut world = World::new();
    world.came_in(1);
    world.registered(named(2, 5), 2);
    assert!(world.joined(found(2, 5)));
    assert_eq!(world.dead(2, 3), [Effect::LeaveLink { link: 205 }]);
    assert!(world.cluster.lost(2, 5, Ending::Lost, 0, 0));
    assert_eq!((world.state(2), world.cluster.epoch()), (None, 3));
    assert!(!world.joined(found(2, 5)));
    assert_eq!(std::mem::take(&mut world.effects), [Effect::LeaveLink { link: 205 }]);
    // Its next life waits, and is named.
    assert!(!world.joined(found(2, 6)));
    assert!(world.cluster.is_waiting(206));
    assert_eq!(world.registered(named(2, 6), 4), [Effect::Admit(found(2, 6))]);
}

#[test]
fn a_later_life_in_the_registry_ends_the_link_of_the_earlier() {
    let mut world = World::new();
    world.came_in(1);
    world.registered(named(2, 5), 2);
    assert!(world.joined(found(2, 5)));
    assert_eq!(world.registered(named(2, 6), 3), [Effect::LeaveLink { link: 205 }]);
    assert!(!world.joined(found(2, 5)));
    assert_eq!(world.effects, [Effect::LeaveLink { link: 205 }]);
}

#[test]
fn a_node_that_is_out_believes_nobody_until_it_is_in_again() {
    let mut world = World::new();
    world.came_in(1);
    world.registered(named(2, 5), 2);
    world.cluster.went_out();
    assert!(!world.joined(found(2, 5)) && world.cluster.is_waiting(205));
    // Meanwhile it died; the list does not name it.
    let all = vec![named(3, 1)];
    world.cluster.registered_all(all, 0, &mut world.effects);
    assert!(std::mem::take(&mut world.effects).contains(&Effect::LeaveLink { link: 205 }));
    assert!(world.cluster.waiting_lost(205, 0, 0));
    assert_eq!(world.came_in(9), []);
    assert!(!world.joined(found(2, 5)));
    assert_eq!(world.effects, [Effect::LeaveLink { link: 205 }]);
}

#[test]
fn a_member_is_sought_where_the_registry_says_and_no_more_once_it_is_dead() {
    let mut world = World::new();
    world.came_in(1);
    world.registered(named(2, 5), 2);
    world.cluster.pass_time(0, &mut world.effects);
    let join = Effect::Join { node: 2, address: named(2, 5).address };
    assert_eq!(std::mem::take(&mut world.effects), [join]);
    world.cluster.not_joined(2, 0, 0);
    assert_eq!(world.state(2), Some(MemberState::Away));
    assert_eq!(world.dead(2, 3), []);
    assert_eq!((world.state(2), world.cluster.next_ns()), (None, None));
    assert_eq!(world.dead(2, 4), [], "nobody dies twice");
}
