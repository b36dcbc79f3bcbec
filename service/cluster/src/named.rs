//! What changes when the registry names a node, or does not any more.

use heliostat_abi::cluster::limits::MEMBERS_MAX;
use heliostat_abi::cluster::{MemberState, RegisteredMember};

use crate::cluster::{Cluster, Effect};
use crate::found::Found;
use crate::member::Member;
use crate::roll::{Roll, Standing};

impl Cluster {
    /// A registry decides from now on who is a member.
    pub fn use_registry(&mut self) {
        self.roll = Some(Roll::default());
    }

    /// Whether this link is to a node that waits for the registry to name it.
    pub fn is_waiting(&self, link: u64) -> bool {
        self.roll.as_ref().is_some_and(|roll| roll.waiting.contains_key(&link))
    }

    /// How many nodes the registry names, this one among them.
    pub fn registered_count(&self) -> usize {
        self.roll.as_ref().map_or(0, |roll| roll.here.len())
    }

    /// This node is registered, in this revision: what it knows of others counts.
    pub fn came_in(&mut self, incarnation: u64, revision: u64, effects: &mut Vec<Effect>) {
        let own = self.own;
        let Some(roll) = &mut self.roll else { return };
        roll.is_in = true;
        roll.here.insert(own, incarnation);
        roll.epoch = roll.epoch.max(revision);
        self.admit_waiting(effects);
    }

    /// This node's lease may have run out: it has left every link, and believes nobody until it is
    /// registered again.
    pub fn went_out(&mut self) {
        let own = self.own;
        let Some(roll) = &mut self.roll else { return };
        roll.is_in = false;
        roll.here.remove(&own);
    }

    /// Everybody whom the registry names; whoever it named before and does not now is dead.
    pub fn registered_all(
        &mut self,
        named: Vec<RegisteredMember>,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) {
        let Some(roll) = &self.roll else { return };
        let is_named = |node: &u64| named.iter().any(|it| it.node == *node);
        let gone: Vec<_> = roll.here.keys().copied().filter(|it| !is_named(it)).collect();
        let epoch = roll.epoch;
        let own = self.own;
        for node in gone.into_iter().filter(|node| *node != own) {
            self.declared_dead(node, epoch, now_ns, effects);
        }
        for it in named {
            self.registered(it, epoch, now_ns, effects);
        }
    }

    /// The registry names a life of a node, since this revision.
    pub fn registered(
        &mut self,
        named: RegisteredMember,
        revision: u64,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) {
        let RegisteredMember { node, incarnation, address } = named;
        let is_own = node == self.own;
        let Some(roll) = &mut self.roll else { return };
        roll.epoch = roll.epoch.max(revision);
        if is_own {
            return;
        }
        if roll.here.len() > MEMBERS_MAX && !roll.here.contains_key(&node) {
            return;
        }
        if let Some(before) = roll.here.insert(node, incarnation).filter(|it| *it < incarnation) {
            roll.bury(node, before);
        }
        let has_room = self.members.len() < MEMBERS_MAX;
        if !self.members.contains_key(&node) && has_room {
            let is_listed = false;
            let retry_ns = Some(now_ns).filter(|_| !address.is_none());
            let sought = Member::sought(address.clone(), now_ns);
            let member = Member { is_listed, retry_ns, ..sought };
            self.members.insert(node, member);
        }
        let Some(member) = self.members.get_mut(&node) else { return };
        if !address.is_none() {
            member.address = address;
        }
        match member.state {
            MemberState::Joined if member.incarnation < incarnation => {
                effects.push(Effect::LeaveLink { link: member.link });
            }
            // It is there, wherever it was: it is sought at once.
            MemberState::Left if !member.is_left_here => {
                member.enter(MemberState::Away, now_ns);
                member.retry_ns = Some(now_ns).filter(|_| !member.address.is_none());
            }
            MemberState::Away | MemberState::Lost => {
                member.failures = 0;
                member.retry_ns = Some(now_ns).filter(|_| !member.address.is_none());
            }
            _ => {}
        }
        self.admit_waiting(effects);
    }

    /// The registry does not name a node any more, since this revision: it is left, even where its link
    /// works.
    pub fn declared_dead(
        &mut self,
        node: u64,
        revision: u64,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) {
        let Some(roll) = &mut self.roll else { return };
        roll.epoch = roll.epoch.max(revision);
        let Some(incarnation) = roll.here.remove(&node) else { return };
        roll.bury(node, incarnation);
        let its = |found: &Found| found.node == node && found.incarnation <= incarnation;
        let waiting = roll.waiting.iter().filter(|(_, found)| its(found));
        effects.extend(waiting.map(|(link, _)| Effect::LeaveLink { link: *link }));
        let Some(member) = self.members.get_mut(&node) else { return };
        if !member.is_listed {
            member.address = heliostat_abi::cluster::MemberAddress::NONE;
            member.retry_ns = None;
        }
        let (state, is_sought) = (member.state, member.is_listed);
        let is_forgotten = match state {
            MemberState::Away | MemberState::Lost => true,
            MemberState::Left => !member.is_left_here,
            _ => false,
        };
        if state == MemberState::Joined && member.incarnation <= incarnation {
            effects.push(Effect::LeaveLink { link: member.link });
        } else if is_forgotten && !is_sought {
            self.members.remove(&node);
        } else if state == MemberState::Joining && !is_sought {
            effects.push(Effect::Leave { node });
        } else {
            // It is on the list, and sought as before.
            member.since_ns = member.since_ns.min(now_ns);
        }
    }

    /// A link is proven whose node the registry does not name yet. It is no member before.
    pub(crate) fn wait_for_registry(&mut self, found: Found, now_ns: u64) -> bool {
        let Some(roll) = &mut self.roll else { return false };
        // One link to a node: an earlier one has ended, or ends.
        roll.waiting.retain(|_, it| it.node != found.node);
        roll.waiting.insert(found.link, found);
        if let Some(member) = self.members.get_mut(&found.node) {
            if member.state != MemberState::Joined {
                if member.state != MemberState::Joining {
                    member.before = member.state;
                }
                member.enter(MemberState::Joining, now_ns);
                member.retry_ns = None;
            }
        }
        false
    }

    /// A link that waited has ended; whether there was one.
    pub fn waiting_lost(&mut self, link: u64, now_ns: u64, chance: u64) -> bool {
        let Some(found) = self.roll.as_mut().and_then(|roll| roll.waiting.remove(&link)) else {
            return false;
        };
        self.not_joined(found.node, now_ns, chance);
        let is_guest = |it: &Member| it.address.is_none() && it.state != MemberState::Joined;
        if self.members.get(&found.node).is_some_and(is_guest) {
            self.members.remove(&found.node);
        }
        true
    }

    /// Whoever waited and is named now is to be admitted; whoever is dead by now is left.
    fn admit_waiting(&mut self, effects: &mut Vec<Effect>) {
        let Some(roll) = &mut self.roll else { return };
        let waiting = std::mem::take(&mut roll.waiting);
        for (link, found) in waiting {
            match roll.standing(found) {
                Standing::Member => effects.push(Effect::Admit(found)),
                Standing::Dead => {
                    effects.push(Effect::LeaveLink { link });
                    roll.waiting.insert(link, found);
                }
                Standing::Unknown => {
                    roll.waiting.insert(link, found);
                }
            }
        }
    }
}
