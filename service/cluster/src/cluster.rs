//! What happens to members, and what it leads to.

use std::collections::BTreeMap;

use heliostat_abi::cluster::limits::MEMBERS_MAX;
use heliostat_abi::cluster::{MemberAddress, MemberState};

use crate::found::Found;
use crate::member::Member;
use crate::roll::{Roll, Standing};

/// All members but this node.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) own: u64,
    pub(crate) epoch: u64,
    pub(crate) members: BTreeMap<u64, Member>,
    /// The node's thread is no more: nobody obeys.
    pub(crate) is_ended: bool,
    /// Who was sought, or joined, when it ended.
    pub(crate) sought: Vec<u64>,
    /// What the registry says, where there is one.
    pub(crate) roll: Option<Roll>,
}

/// An order for the node's thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Join a node.
    Join {
        /// Which.
        node: u64,
        /// Where.
        address: MemberAddress,
    },
    /// Leave a node by whatever link, and give up joining it.
    Leave {
        /// Which.
        node: u64,
    },
    /// Leave a node by this link alone: a later one may have taken its place meanwhile.
    LeaveLink {
        /// Which.
        link: u64,
    },
    /// A node that waited for the registry to name it is a member from now on.
    Admit(Found),
}

/// How a node that was joined ceased to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It said goodbye.
    Left,
    /// Anything else: its link ended, it was silent, another link took its place.
    Lost,
}

impl Cluster {
    /// A node that seeks these others, at once.
    pub fn new(
        own: u64,
        peers: impl IntoIterator<Item = (u64, MemberAddress)>,
        now_ns: u64,
    ) -> Cluster {
        let peers = peers.into_iter().filter(|(node, _)| *node != own).take(MEMBERS_MAX);
        let members = peers.map(|(node, address)| (node, Member::sought(address, now_ns)));
        let (members, sought) = (members.collect(), Vec::new());
        Cluster { own, epoch: 0, members, is_ended: false, sought, roll: None }
    }

    /// This node's number.
    pub fn own(&self) -> u64 {
        self.own
    }

    /// The registry's revision of the last change of membership, the same for all; without a registry
    /// how many changes this node has seen.
    pub fn epoch(&self) -> u64 {
        self.roll.as_ref().map_or(self.epoch, |roll| roll.epoch)
    }

    /// A member.
    pub fn member(&self, node: u64) -> Option<&Member> {
        self.members.get(&node)
    }

    /// All of them, in order of number.
    pub fn members(&self) -> impl Iterator<Item = (u64, &Member)> + '_ {
        self.members.iter().map(|(node, member)| (*node, member))
    }

    /// How many are joined.
    pub fn joined_count(&self) -> usize {
        self.members.values().filter(|member| member.state == MemberState::Joined).count()
    }

    /// Whether the node's thread has ended.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// When [`Cluster::pass_time`] is due.
    pub fn next_ns(&self) -> Option<u64> {
        self.members.values().filter_map(|member| member.retry_ns).min()
    }

    /// Seeks those whose time has come.
    pub fn pass_time(&mut self, now_ns: u64, effects: &mut Vec<Effect>) {
        for (node, member) in &mut self.members {
            if member.retry_ns.is_some_and(|ns| ns <= now_ns) {
                member.retry_ns = None;
                member.before = member.state;
                member.enter(MemberState::Joining, now_ns);
                effects.push(Effect::Join { node: *node, address: member.address.clone() });
            }
        }
    }

    /// A node is joined. One that was left by command, is an earlier life of a member, or is one too
    /// many, is left again; whether it is a member now. One that the registry does not name yet waits. `chance` is any number that others cannot guess.
    pub fn joined(
        &mut self,
        found: Found,
        now_ns: u64,
        chance: u64,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Found { node, incarnation, link, is_ours } = found;
        let standing = self.roll.as_ref().map_or(Standing::Member, |roll| roll.standing(found));
        if !self.members.contains_key(&node) && self.members.len() < MEMBERS_MAX {
            self.members.insert(node, Member::guest(now_ns));
        }
        let member = self.members.get_mut(&node);
        let taken = member.filter(|it| !it.is_left_here && incarnation >= it.incarnation);
        let taken = taken.filter(|_| standing != Standing::Dead);
        let Some(member) = taken else {
            effects.push(Effect::LeaveLink { link });
            // A join that was ordered has ended with that, and nothing else follows it.
            if is_ours {
                self.not_joined(node, now_ns, chance);
            }
            return false;
        };
        if standing == Standing::Unknown {
            return self.wait_for_registry(found, now_ns);
        }
        member.enter(MemberState::Joined, now_ns);
        member.incarnation = incarnation;
        member.link = link;
        member.failures = 0;
        member.retry_ns = None;
        self.epoch += 1;
        true
    }

    /// A join that was ordered came to nothing. `chance` is any number that others cannot guess.
    pub fn not_joined(&mut self, node: u64, now_ns: u64, chance: u64) {
        let waits = |roll: &Roll| roll.waiting.values().any(|it| it.node == node);
        if self.roll.as_ref().is_some_and(waits) {
            // Another link was faster, and waits for the registry.
            return;
        }
        let member = self.members.get_mut(&node);
        // Where it is joined, another link was faster; where it is left, nobody waits for it.
        if let Some(member) = member.filter(|it| it.state == MemberState::Joining) {
            member.enter(member.before, now_ns);
            member.retry_later(now_ns, chance);
        }
    }

    /// A node that was joined is so no more; whether it was a member until now.
    pub fn lost(
        &mut self,
        node: u64,
        incarnation: u64,
        how: Ending,
        now_ns: u64,
        chance: u64,
    ) -> bool {
        let is_it =
            |it: &&mut Member| it.state == MemberState::Joined && it.incarnation == incarnation;
        let Some(member) = self.members.get_mut(&node).filter(is_it) else { return false };
        self.epoch += 1;
        match how {
            Ending::Left => member.enter(MemberState::Left, now_ns),
            Ending::Lost => {
                member.enter(MemberState::Lost, now_ns);
                member.retry_later(now_ns, chance);
            }
        }
        if member.address.is_none() {
            self.members.remove(&node);
        }
        true
    }

    /// How far a node is.
    pub fn measured(&mut self, node: u64, ns: u64) {
        if let Some(member) = self.members.get_mut(&node) {
            member.round_trip_ns = Some(ns);
        }
    }
}
