//! What holds after any sequence of events, whatever the node's thread and people say.

use std::collections::BTreeSet;

use heliostat_abi::cluster::limits::MEMBERS_MAX;
use heliostat_abi::cluster::{MemberAddress, MemberState};
use proptest::prelude::*;

use crate::{Cluster, Effect, Ending, Found, RETRY_NS_MAX};

const OWN: u64 = 1;

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Joined(u64, u64, bool, u64),
    NotJoined(u64, u64),
    Lost(u64, u64, bool, u64),
    Join(u64, bool),
    Leave(u64),
    LeaveAll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = || 1..6u64;
    let life = || 1..4u64;
    let step = prop_oneof![
        4 => (0..RETRY_NS_MAX).prop_map(Step::Wait),
        4 => (node(), life(), any::<bool>(), any::<u64>())
            .prop_map(|(node, life, is_ours, chance)| Step::Joined(node, life, is_ours, chance)),
        3 => (node(), any::<u64>()).prop_map(|(node, chance)| Step::NotJoined(node, chance)),
        3 => (node(), life(), any::<bool>(), any::<u64>())
            .prop_map(|(node, life, left, chance)| Step::Lost(node, life, left, chance)),
        2 => (node(), any::<bool>()).prop_map(|(node, given)| Step::Join(node, given)),
        1 => node().prop_map(Step::Leave),
        1 => Just(Step::LeaveAll),
    ];
    prop::collection::vec(step, 0..64)
}

fn address(node: u64) -> MemberAddress {
    MemberAddress::parse(&format!("tcp:10.0.0.{node}:7700")).unwrap_or_default()
}

/// A cluster, and what only an onlooker knows of it.
struct Watched {
    cluster: Cluster,
    now_ns: u64,
    /// Left by command, and not joined by command since.
    left_here: BTreeSet<u64>,
}

impl Watched {
    fn new() -> Watched {
        let cluster = Cluster::new(OWN, [(2, address(2)), (3, address(3))], 0);
        Watched { cluster, now_ns: 0, left_here: BTreeSet::new() }
    }

    fn states(&self) -> Vec<(u64, MemberState, u64)> {
        let each = self.cluster.members();
        each.map(|(node, it)| (node, it.state, it.incarnation)).collect()
    }

    fn take(&mut self, step: Step) -> Vec<Effect> {
        let (cluster, now_ns, mut effects) = (&mut self.cluster, self.now_ns, Vec::new());
        match step {
            Step::Wait(ns) => {
                self.now_ns += ns;
                cluster.pass_time(self.now_ns, &mut effects);
            }
            Step::Joined(node, incarnation, is_ours, chance) if node != OWN => {
                let found = Found { node, incarnation, link: 0, is_ours };
                cluster.joined(found, now_ns, chance, &mut effects);
            }
            Step::NotJoined(node, chance) => cluster.not_joined(node, now_ns, chance),
            Step::Lost(node, life, left, chance) => {
                let how = if left { Ending::Left } else { Ending::Lost };
                cluster.lost(node, life, how, now_ns, chance);
            }
            Step::Join(node, given) => {
                let to = if given { address(node) } else { MemberAddress::NONE };
                if cluster.join(node, to, now_ns, &mut effects).is_ok() {
                    self.left_here.remove(&node);
                }
            }
            Step::Leave(node) => {
                if cluster.leave(node, now_ns, &mut effects).is_ok() {
                    self.left_here.insert(node);
                }
            }
            Step::LeaveAll => {
                cluster.leave_all(now_ns, &mut effects);
                self.left_here.extend(self.cluster.members().map(|(node, _)| node));
            }
            Step::Joined(..) => {}
        }
        effects
    }

    fn check(&self, effects: &[Effect]) {
        for (node, member) in self.cluster.members() {
            assert_ne!(node, OWN);
            let waits = matches!(member.state, MemberState::Away | MemberState::Lost);
            assert_eq!(member.retry_ns.is_some(), waits, "{node}: {member:?}");
            assert!(member.retry_ns.is_none_or(|ns| ns <= self.now_ns + RETRY_NS_MAX));
            assert_eq!(member.is_left_here, self.left_here.contains(&node), "{node}: {member:?}");
            assert!(!member.is_left_here || member.state == MemberState::Left);
        }
        for effect in effects {
            let Effect::Join { node, address } = effect else { continue };
            assert!(!address.is_none() && !self.left_here.contains(node), "{effect:?}");
            let state = self.cluster.member(*node).map(|it| it.state);
            assert_eq!(state, Some(MemberState::Joining));
        }
        assert!(self.cluster.members().count() <= MEMBERS_MAX);
    }
}

proptest! {
    #[test]
    fn a_member_waits_for_one_thing_and_one_left_by_command_for_nothing(steps in steps()) {
        let mut watched = Watched::new();
        for step in steps {
            let effects = watched.take(step);
            watched.check(&effects);
        }
    }

    #[test]
    fn the_epoch_moves_on_with_every_change_of_who_is_joined_and_with_nothing_else(
        steps in steps(),
    ) {
        let mut watched = Watched::new();
        for step in steps {
            let joined = |watched: &Watched| -> Vec<_> {
                let states = watched.states().into_iter();
                states.filter(|(_, state, _)| *state == MemberState::Joined).collect()
            };
            let (before, epoch) = (joined(&watched), watched.cluster.epoch());
            watched.take(step);
            let is_other = joined(&watched) != before;
            // A node that is joined by another link at once is a change as well.
            let again = matches!(step, Step::Joined(..));
            prop_assert!(watched.cluster.epoch() >= epoch);
            prop_assert!(!is_other || watched.cluster.epoch() > epoch, "{:?}", step);
            prop_assert!(is_other || again || watched.cluster.epoch() == epoch, "{:?}", step);
        }
    }
}
