//! How a primary changes who its backups are, makes the record of a new region, and removes it.

use super::primary::{Primary, Proposal};
use super::{Effect, Fault, Outcome, Replica, Role};
use crate::placement::{Alter, Member, Placement, Revision};

/// Alterations of one region that wait.
const ALTERING_MAX: usize = 64;

impl Replica {
    /// Proposes another placement where one is needed.
    pub(crate) fn decide(&mut self, effects: &mut Vec<Effect>) {
        let ready = self.copied();
        let Role::Primary(primary) = &mut self.role else { return };
        if primary.proposal.is_some() {
            return;
        }
        let lost = |it: Member| primary.followers.get(&it).is_none_or(|it| it.is_lost);
        let next = if primary.maker.is_some() {
            if let Some(lost) = self.placement.backups.iter().find(|it| lost(**it)) {
                let node = lost.node;
                return self.not_made(Fault::Unreachable(node), effects);
            }
            if !primary.followers.values().all(|it| it.is_confirmed) {
                return;
            }
            Some(self.placement.clone())
        } else if primary.freer.is_some() {
            None
        } else if self.placement.backups.iter().any(|it| lost(*it)) {
            Some(self.placement.without(lost))
        } else if let Some(member) = ready {
            // From now on nothing is answered without it: it may be primary as soon as the record stands.
            if let Some(it) = primary.followers.get_mut(&member) {
                it.is_required = true;
            }
            Some(self.placement.with(member))
        } else {
            let altered = primary.altering.front().and_then(|it| self.placement.altered(it.1));
            // Nothing else than a freer has the record removed.
            let Some(altered) = altered else { return };
            Some(altered)
        };
        primary.proposal = Some(Proposal { next, is_asked: false });
        self.press_proposal(effects);
    }

    /// Asks the registry, unless it is asked already.
    pub(crate) fn press_proposal(&mut self, effects: &mut Vec<Effect>) {
        let Role::Primary(primary) = &mut self.role else { return };
        let Some(proposal) = primary.proposal.as_mut().filter(|it| !it.is_asked) else { return };
        proposal.is_asked = true;
        let placement = proposal.next.clone().map(Box::new);
        self.attempts += 1;
        let (attempt, expected) = (self.attempts, self.revision);
        effects.push(Effect::Propose { attempt, expected, placement });
    }

    pub(crate) fn proposed_as_primary(&mut self, outcome: Outcome, effects: &mut Vec<Effect>) {
        let Role::Primary(primary) = &mut self.role else { return };
        let Some(proposal) = &mut primary.proposal else { return };
        proposal.is_asked = false;
        match (outcome, proposal.next.clone()) {
            (Outcome::Accepted(revision), Some(next)) => self.adopt(revision, next, effects),
            (Outcome::Accepted(_), None) => self.freed(effects),
            (Outcome::Conflict, _) => self.look(effects),
            (Outcome::Full(limit), _) if primary.maker.is_some() => {
                self.not_made(Fault::Full(limit), effects);
            }
            // With the next tick. A keeper that has no room for a record that it had has lost it.
            (Outcome::Unknown | Outcome::Full(_), _) => {}
        }
    }

    pub(crate) fn looked_as_primary(
        &mut self,
        revision: Revision,
        its: Option<Placement>,
        effects: &mut Vec<Effect>,
    ) {
        let Role::Primary(primary) = &self.role else { return };
        let is_new = primary.maker.is_some();
        match its {
            None if is_new && revision == 0 => {}
            None if is_new => self.not_made(Fault::Exists, effects),
            // Removed, perhaps by this node's own proposal.
            None if primary.freer.is_some() => self.freed(effects),
            None => self.end(effects),
            Some(its) if its.primary != self.me => self.end(effects),
            Some(its) if is_new || its.epoch > self.placement.epoch => {
                self.adopt(revision, its, effects);
            }
            Some(_) => self.revision = revision,
        }
    }

    /// Another placement is decided, in which this node is the primary.
    fn adopt(&mut self, revision: Revision, next: Placement, effects: &mut Vec<Effect>) {
        let Role::Primary(primary) = &mut self.role else { return };
        primary.proposal = None;
        primary.adopt(&next);
        self.revision = revision;
        self.promised = next.epoch;
        self.placement = next;
        effects.extend(primary.maker.take().map(|token| Effect::Made(token, Ok(()))));
        self.end_altered(effects);
        self.go_on(effects);
    }

    /// Alters who may use the region, by its record; the effect `Altered` with this token follows.
    pub fn alter(&mut self, token: u64, alter: Alter, effects: &mut Vec<Effect>) {
        let Role::Primary(primary) = &mut self.role else {
            return effects.push(Effect::Altered(token, Err(Fault::NotPrimary)));
        };
        if primary.maker.is_some() || primary.freer.is_some() {
            return effects.push(Effect::Altered(token, Err(Fault::NotPrimary)));
        }
        if primary.altering.len() >= ALTERING_MAX {
            let full = Fault::Full(ALTERING_MAX as u64);
            return effects.push(Effect::Altered(token, Err(full)));
        }
        primary.altering.push_back((token, alter));
        self.end_altered(effects);
        self.decide(effects);
    }

    /// Tells whose alteration stands, and who asks for more than the record has room for. What a proposal
    /// that is under way is to bring is not told before.
    fn end_altered(&mut self, effects: &mut Vec<Effect>) {
        let Role::Primary(primary) = &mut self.role else { return };
        while primary.proposal.is_none() {
            let Some((token, alter)) = primary.altering.front().copied() else { return };
            let result = if self.placement.has(alter) {
                Ok(())
            } else if self.placement.altered(alter).is_none() {
                Err(Fault::Full(crate::APPOINTED_MAX as u64))
            } else {
                return;
            };
            primary.altering.pop_front();
            effects.push(Effect::Altered(token, result));
        }
    }

    /// Frees the region: its record is removed first.
    pub fn free(&mut self, token: u64, effects: &mut Vec<Effect>) {
        match &mut self.role {
            Role::Primary(primary) if primary.maker.is_none() && primary.freer.is_none() => {
                primary.freer = Some(token);
                self.decide(effects);
            }
            _ => effects.push(Effect::Freed(token, Err(Fault::NotPrimary))),
        }
    }

    fn freed(&mut self, effects: &mut Vec<Effect>) {
        let Role::Primary(primary) = &mut self.role else { return };
        effects.extend(primary.freer.take().map(|token| Effect::Freed(token, Ok(()))));
        self.dismiss(effects);
        self.end(effects);
    }

    fn not_made(&mut self, fault: Fault, effects: &mut Vec<Effect>) {
        let Role::Primary(primary) = &mut self.role else { return };
        effects.extend(primary.maker.take().map(|token| Effect::Made(token, Err(fault))));
        self.dismiss(effects);
        self.end(effects);
    }

    /// A node that was invited has no room.
    pub(crate) fn refused_by(&mut self, member: Member, effects: &mut Vec<Effect>) {
        let Role::Primary(primary) = &self.role else { return };
        match is_made(primary) {
            true => self.lose_follower(member),
            false => self.not_made(Fault::Full(member.node), effects),
        }
    }

    fn dismiss(&self, effects: &mut Vec<Effect>) {
        let Role::Primary(primary) = &self.role else { return };
        let epoch = self.placement.epoch;
        let all = primary.followers.keys();
        effects.extend(all.map(|to| Effect::Forget { to: *to, epoch }));
    }
}

fn is_made(primary: &Primary) -> bool {
    primary.maker.is_none()
}
