//! What holds with a node's thread that does what the real one does, at its own pace: orders wait until
//! it obeys them, and what it tells waits until it is heard.

use std::collections::{BTreeMap, VecDeque};

use heliostat_abi::cluster::{MemberAddress, MemberState};
use proptest::prelude::*;

use crate::{Cluster, Effect, Ending, Found, RETRY_NS_MAX};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Joined(Found),
    NotJoined { node: u64 },
    Lost { node: u64, life: u64, left: bool },
}

/// The node's thread: one joined link for each node, and joins that are under way.
#[derive(Default)]
struct Thread {
    last_link: u64,
    joined: BTreeMap<u64, (u64, u64)>,
    joining: BTreeMap<u64, u64>,
    told: VecDeque<Event>,
}

impl Thread {
    fn obey(&mut self, order: Effect) {
        match order {
            Effect::Join { node, .. } => {
                self.last_link += 1;
                self.joining.insert(self.last_link, node);
            }
            Effect::Leave { node } => {
                let its = self.joining.iter().filter(|(_, to)| **to == node).map(|(link, _)| *link);
                its.collect::<Vec<_>>().into_iter().for_each(|link| self.fail(link));
                self.end(node, false);
            }
            // Without a registry nobody waits for it.
            Effect::Admit(found) => unreachable!("{found:?}"),
            Effect::LeaveLink { link } => {
                self.fail(link);
                let found = self.joined.iter().find(|(_, it)| it.0 == link);
                if let Some(node) = found.map(|(node, _)| *node) {
                    self.end(node, false);
                }
            }
        }
    }

    /// A join comes to nothing.
    fn fail(&mut self, link: u64) {
        let its = self.joining.remove(&link);
        self.told.extend(its.map(|node| Event::NotJoined { node }));
    }

    fn end(&mut self, node: u64, left: bool) {
        let its = self.joined.remove(&node);
        self.told.extend(its.map(|(_, life)| Event::Lost { node, life, left }));
    }

    /// A link is proven. It takes the place of one to an earlier life and gives way to one to a later;
    /// of two to the same life either may go.
    fn prove(&mut self, node: u64, life: u64, link: u64, gives_way: bool) {
        if let Some((_, other)) = self.joined.get(&node).copied() {
            if life < other || (life == other && gives_way) {
                return self.fail(link);
            }
            self.end(node, false);
        }
        let is_ours = self.joining.remove(&link).is_some();
        self.joined.insert(node, (link, life));
        self.told.push_back(Event::Joined(Found { node, incarnation: life, link, is_ours }));
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Join(u64),
    Leave(u64),
    Obey,
    Hear(u64),
    /// A node comes by itself.
    Comes(u64, u64, bool),
    /// One of our joins is answered, or is not.
    Answers(usize, u64, bool),
    Fails(usize),
    Ends(u64, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (node, life, at) = (|| 2..5u64, || 1..4u64, || 0..8usize);
    let step = prop_oneof![
        3 => (0..RETRY_NS_MAX).prop_map(Step::Wait),
        2 => node().prop_map(Step::Join),
        1 => node().prop_map(Step::Leave),
        6 => Just(Step::Obey),
        6 => any::<u64>().prop_map(Step::Hear),
        2 => (node(), life(), any::<bool>()).prop_map(|(node, life, way)| Step::Comes(node, life, way)),
        4 => (at(), life(), any::<bool>()).prop_map(|(at, life, way)| Step::Answers(at, life, way)),
        1 => at().prop_map(Step::Fails),
        3 => (node(), any::<bool>()).prop_map(|(node, left)| Step::Ends(node, left)),
    ];
    prop::collection::vec(step, 0..96)
}

fn address(node: u64) -> MemberAddress {
    MemberAddress::parse(&format!("tcp:10.0.0.{node}:7700")).unwrap_or_default()
}

struct World {
    cluster: Cluster,
    thread: Thread,
    orders: VecDeque<Effect>,
    now_ns: u64,
}

impl World {
    fn new() -> World {
        let cluster = Cluster::new(1, [(2, address(2)), (3, address(3))], 0);
        World { cluster, thread: Thread::default(), orders: VecDeque::new(), now_ns: 0 }
    }

    fn take(&mut self, step: Step) {
        let mut effects = Vec::new();
        let thread = &mut self.thread;
        let join_at = |thread: &Thread, at| thread.joining.iter().nth(at).map(|(l, n)| (*l, *n));
        match step {
            Step::Wait(ns) => {
                self.now_ns += ns;
                self.cluster.pass_time(self.now_ns, &mut effects);
            }
            // A node without an address is refused; nothing has changed then.
            Step::Join(node) => {
                let _ = self.cluster.join(node, MemberAddress::NONE, self.now_ns, &mut effects);
            }
            Step::Leave(node) => {
                let _ = self.cluster.leave(node, self.now_ns, &mut effects);
            }
            Step::Obey => self.orders.pop_front().into_iter().for_each(|it| thread.obey(it)),
            Step::Hear(chance) => self.hear(chance, &mut effects),
            Step::Comes(node, life, gives_way) => {
                thread.last_link += 1;
                thread.prove(node, life, thread.last_link, gives_way);
            }
            Step::Answers(at, life, gives_way) => {
                if let Some((link, node)) = join_at(thread, at) {
                    thread.prove(node, life, link, gives_way);
                }
            }
            Step::Fails(at) => join_at(thread, at).into_iter().for_each(|(it, _)| thread.fail(it)),
            Step::Ends(node, left) => thread.end(node, left),
        }
        self.orders.extend(effects);
    }

    fn hear(&mut self, chance: u64, effects: &mut Vec<Effect>) {
        match self.thread.told.pop_front() {
            Some(Event::Joined(found)) => {
                self.cluster.joined(found, self.now_ns, chance, effects);
            }
            Some(Event::NotJoined { node }) => self.cluster.not_joined(node, self.now_ns, chance),
            Some(Event::Lost { node, life, left }) => {
                let how = if left { Ending::Left } else { Ending::Lost };
                self.cluster.lost(node, life, how, self.now_ns, chance);
            }
            None => {}
        }
    }

    /// Obeys and hears until there is nothing more to do.
    fn settle(&mut self) {
        while !self.orders.is_empty() || !self.thread.told.is_empty() {
            self.take(Step::Obey);
            self.take(Step::Hear(7));
        }
    }

    /// Who is being joined is so because something is still to come.
    fn check_joining(&self) {
        for (node, member) in self.cluster.members() {
            let is_ordered = self
                .orders
                .iter()
                .any(|it| matches!(it, Effect::Join { node: to, .. } if *to == node));
            let is_under_way = self.thread.joining.values().any(|to| *to == node);
            let is_told = self.thread.told.iter().any(|it| match it {
                Event::Joined(found) => found.node == node,
                Event::NotJoined { node: whom } => *whom == node,
                Event::Lost { .. } => false,
            });
            let is_joining = member.state == MemberState::Joining;
            assert!(!is_joining || is_ordered || is_under_way || is_told, "{node}: {member:?}");
        }
    }

    /// Where nothing is under way, both have the same nodes joined, in the same lives.
    fn check_joined(&self) {
        let its = self.cluster.members().filter(|(_, it)| it.state == MemberState::Joined);
        let its: Vec<_> = its.map(|(node, it)| (node, it.incarnation)).collect();
        let links: Vec<_> = self.thread.joined.iter().map(|(node, it)| (*node, it.1)).collect();
        assert_eq!(its, links);
    }
}

proptest! {
    #[test]
    fn who_is_being_joined_is_so_until_the_join_ends(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
            world.check_joining();
        }
        world.settle();
        world.check_joining();
        world.check_joined();
    }

    #[test]
    fn whoever_is_sought_and_answers_is_joined_in_the_end(steps in steps()) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.take(step));
        // From now on everybody who is sought answers, in a life that is later than all.
        for _ in 0..4 {
            world.settle();
            world.take(Step::Wait(RETRY_NS_MAX));
            world.settle();
            while let Some((link, node)) = world.thread.joining.pop_first() {
                world.thread.joining.insert(link, node);
                world.thread.prove(node, 100, link, false);
                world.settle();
            }
        }
        for (node, member) in world.cluster.members() {
            let state = member.state;
            prop_assert!(matches!(state, MemberState::Joined | MemberState::Left), "{node} {state}");
        }
        world.check_joined();
    }
}
