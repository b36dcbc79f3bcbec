//! A backup whose primary is lost wants to be that.
//!
//! ```text
//! follower --lost--> follows it no more, looks --> proposes itself --accepted--> primary
//!                        |   ^                          |
//!                        |   '---- conflict, unknown ---'
//!                        '--> another one is primary: follower; not a member: over
//! ```

use super::primary::Primary;
use super::{Effect, Outcome, Replica, Role};
use crate::placement::{Member, Placement, Revision};

/// What is known of a claim.
pub(crate) struct Claim {
    /// Who is lost.
    lost: Member,
    /// What was proposed and is not decided.
    proposed: Option<Placement>,
    is_asked: bool,
}

impl Replica {
    /// From here on the lost primary gets no confirmation of this replica, so it answers nothing more.
    pub(crate) fn claim(&mut self, effects: &mut Vec<Effect>) {
        if !self.is_confirmed {
            return self.end(effects);
        }
        self.promised = self.promised.max(self.placement.epoch + 1);
        let lost = self.placement.primary;
        self.role = Role::Claiming(Claim { lost, proposed: None, is_asked: false });
        self.is_looking = false;
        self.look(effects);
    }

    pub(crate) fn press_claim(&mut self, effects: &mut Vec<Effect>) {
        if matches!(&self.role, Role::Claiming(claim) if !claim.is_asked) {
            self.look(effects);
        }
    }

    pub(crate) fn looked_as_claimer(
        &mut self,
        revision: Revision,
        its: Placement,
        effects: &mut Vec<Effect>,
    ) {
        let Role::Claiming(claim) = &mut self.role else { return };
        if its.primary == self.me {
            return self.lead(revision, its, effects);
        }
        if !its.backups.contains(&self.me) {
            return self.end(effects);
        }
        if its.primary != claim.lost && its.epoch >= self.promised {
            // Another backup was faster.
            self.promised = its.epoch;
            self.placement = its;
            self.role = Role::Follower;
            return;
        }
        if claim.is_asked {
            return;
        }
        // Whoever has an earlier record than this one has not heard of it; its own entries are complete
        // all the same, since nothing was answered without it.
        self.promised = self.promised.max(its.epoch + 1);
        let next = its.led_by(self.me);
        (claim.proposed, claim.is_asked) = (Some(next.clone()), true);
        self.attempts += 1;
        let (attempt, placement) = (self.attempts, Some(Box::new(next)));
        effects.push(Effect::Propose { attempt, expected: revision, placement });
    }

    pub(crate) fn proposed_as_claimer(&mut self, outcome: Outcome, effects: &mut Vec<Effect>) {
        let Role::Claiming(claim) = &mut self.role else { return };
        claim.is_asked = false;
        match (outcome, claim.proposed.take()) {
            (Outcome::Accepted(revision), Some(next)) => self.lead(revision, next, effects),
            (Outcome::Conflict, _) => self.look(effects),
            // With the next tick.
            _ => {}
        }
    }

    /// It is the primary from now on. What it has and nobody was answered goes to the backups first.
    fn lead(&mut self, revision: Revision, its: Placement, effects: &mut Vec<Effect>) {
        self.revision = revision;
        self.promised = its.epoch;
        self.log.apply_to(self.log.end());
        let primary = Primary::new(&its, self.committed, None);
        self.placement = its;
        self.role = Role::Primary(Box::new(primary));
        self.go_on(effects);
    }
}
