//! What people tell a node about others.

use heliostat_abi::cluster::limits::MEMBERS_MAX;
use heliostat_abi::cluster::{MemberAddress, MemberState};

use crate::cluster::{Cluster, Effect};
use crate::member::Member;
use crate::refusal::{Reason, Refusal};

impl Cluster {
    /// A node is to be joined, from now on, at its known address or at a new one. It may have any
    /// life: whoever says so knows which.
    ///
    /// # Errors
    /// It is this node, its address is not known, there are too many, or the node's thread has ended.
    /// Nothing has changed.
    pub fn join(
        &mut self,
        node: u64,
        address: MemberAddress,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if node == self.own {
            return Err(Reason::Here.into());
        }
        if self.is_ended {
            return Err(Reason::Ended.into());
        }
        let is_known = self.members.get(&node).is_some_and(|it| !it.address.is_none());
        if address.is_none() && !is_known {
            return Err(Reason::NotFound { node }.into());
        }
        if !self.members.contains_key(&node) && self.members.len() >= MEMBERS_MAX {
            return Err(Reason::Full.into());
        }
        let entry = self.members.entry(node);
        let member = entry.or_insert_with(|| Member::guest(now_ns));
        if !address.is_none() {
            member.address = address;
            member.is_listed = true;
        }
        if member.state == MemberState::Joined {
            return Ok(());
        }
        member.is_left_here = false;
        member.failures = 0;
        member.retry_ns = None;
        member.incarnation = 0;
        // It is sought from now on, so that it is not left again where this comes to nothing.
        member.before =
            if member.state == MemberState::Lost { MemberState::Lost } else { MemberState::Away };
        member.enter(MemberState::Joining, now_ns);
        effects.push(Effect::Join { node, address: member.address.clone() });
        Ok(())
    }

    /// A node is left, and not joined again before somebody says so.
    ///
    /// # Errors
    /// It is no member. Nothing has changed.
    pub fn leave(
        &mut self,
        node: u64,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let member = self.members.get_mut(&node).ok_or(Reason::NotFound { node })?;
        self.sought.retain(|sought| *sought != node);
        if member.state == MemberState::Joined {
            self.epoch += 1;
        }
        member.enter(MemberState::Left, now_ns);
        member.is_left_here = true;
        member.retry_ns = None;
        effects.push(Effect::Leave { node });
        Ok(())
    }

    /// Every node is left.
    pub fn leave_all(&mut self, now_ns: u64, effects: &mut Vec<Effect>) {
        let all: Vec<_> = self.members.keys().copied().collect();
        for node in all {
            // Each of them is a member.
            let _ = self.leave(node, now_ns, effects);
        }
    }

    /// The node's thread has ended: every node is left, and none is joined any more.
    pub fn end(&mut self, now_ns: u64) {
        let members = self.members.iter();
        let sought = members.filter(|(_, it)| !it.is_left_here && !it.address.is_none());
        let sought = sought.map(|(node, _)| *node).collect();
        // Nobody obeys.
        self.leave_all(now_ns, &mut Vec::new());
        self.sought = sought;
        self.is_ended = true;
    }

    /// There is a thread again: those are sought who were before it ended, at once. Who was left by
    /// command before, or meanwhile said to be, stays so.
    pub fn begin_again(&mut self, now_ns: u64) {
        self.is_ended = false;
        for node in std::mem::take(&mut self.sought) {
            let Some(member) = self.members.get_mut(&node) else { continue };
            member.is_left_here = false;
            member.enter(MemberState::Lost, now_ns);
            member.retry_ns = Some(now_ns);
        }
    }
}
