//! Where a session's completions go: its own ring, or that of the member whose tag they have.
//!
//! A process that has a session for itself has one ring, and any tag. Members of a joint session have
//! one each (`abi::delegated::joint`): one that is dead or does not look keeps nobody else's answers,
//! since its ring has room for all that it may have under way.

use std::collections::VecDeque;

use heliostat_abi::file::delegated::joint::member_of;
use heliostat_abi::file::delegated::{Completion, DEPTH_MAX};
use heliostat_ring::members::MembersPage;
use heliostat_ring::{ReserveError, SpscProducer};

/// Why a completion cannot be told.
pub type Fault = &'static str;

/// The rings, and what does not fit into them yet.
pub struct Completions {
    /// The only one, or the opener's.
    first: SpscProducer,
    joint: Option<Joint>,
    unsent: VecDeque<Completion>,
    /// Completions in the rings that were not rung for.
    unannounced: usize,
}

/// The rings of the members behind the first, each with what it was not rung for.
struct Joint {
    page: MembersPage,
    others: Vec<SpscProducer>,
    /// By member, whether its ring has something that it was not rung for.
    is_unrung: Vec<bool>,
}

impl Completions {
    /// Of a session that one process has for itself.
    pub fn of_one(ring: SpscProducer) -> Completions {
        Completions { first: ring, joint: None, unsent: VecDeque::new(), unannounced: 0 }
    }

    /// Of the members that share a page; `others` are the rings of those behind the first.
    pub fn of_members(
        page: MembersPage,
        first: SpscProducer,
        others: Vec<SpscProducer>,
    ) -> Completions {
        let is_unrung = vec![false; others.len() + 1];
        let joint = Some(Joint { page, others, is_unrung });
        Completions { joint, ..Completions::of_one(first) }
    }

    /// Whether several processes wait for them, each for its own.
    pub fn is_joint(&self) -> bool {
        self.joint.is_some()
    }

    /// Completions for which there was no room.
    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Completions that nobody was rung for.
    pub fn unannounced(&self) -> usize {
        self.unannounced
    }

    /// Puts a completion into its ring, or keeps it until there is room.
    pub fn put(&mut self, completion: Completion) -> Result<(), Fault> {
        if !self.unsent.is_empty() || !self.send(completion)? {
            self.unsent.push_back(completion);
        }
        // Operations and completions together are bounded by what is taken from the ring; files
        // that are shown over the control socket are not.
        if self.unsent.len() > 2 * DEPTH_MAX {
            return Err("it does not take its completions");
        }
        Ok(())
    }

    /// Puts into the ring what there was no room for.
    pub fn send_unsent(&mut self) -> Result<(), Fault> {
        while let Some(completion) = self.unsent.front().copied() {
            if !self.send(completion)? {
                break;
            }
            self.unsent.pop_front();
        }
        Ok(())
    }

    fn send(&mut self, completion: Completion) -> Result<bool, Fault> {
        let is_joint = self.is_joint();
        let ring = match &mut self.joint {
            None => &mut self.first,
            Some(joint) => joint.ring(&mut self.first, member_of(completion.tag))?,
        };
        let record = completion.encode();
        match ring.reserve(record.len()) {
            Ok(mut slot) => {
                slot.copy_in(0, &record);
                slot.commit_quiet();
                self.unannounced += 1;
                Ok(true)
            }
            // No other member may be held up by what this one does not take.
            Err(ReserveError::Full) if is_joint => Err("a member has more under way than it may"),
            Err(ReserveError::Full) => Ok(false),
            Err(_) => Err("its completion ring is corrupt"),
        }
    }

    /// Something was completed that is in no ring.
    pub fn ring_later(&mut self) {
        self.unannounced += 1;
        self.joint.iter_mut().for_each(|joint| joint.is_unrung[0] = true);
    }

    /// Rings for what was completed since the last time.
    pub fn ring(&mut self) {
        if std::mem::take(&mut self.unannounced) > 0 {
            match &mut self.joint {
                None => self.first.ring(),
                Some(joint) => joint.ring_some(&self.first),
            }
        }
    }

    /// The session has ended: tells the members, who may have no other way to hear of it.
    pub fn end(&mut self) {
        if let Some(joint) = &mut self.joint {
            joint.page.end();
            joint.is_unrung.fill(true);
            joint.ring_some(&self.first);
        }
    }
}

impl Joint {
    /// The ring of a member.
    fn ring<'a>(
        &'a mut self,
        first: &'a mut SpscProducer,
        member: u32,
    ) -> Result<&'a mut SpscProducer, Fault> {
        let known = self.is_unrung.get_mut(member as usize);
        *known.ok_or("a tag names no member")? = true;
        Ok(match (member as usize).checked_sub(1) {
            None => first,
            Some(at) => self.others.get_mut(at).ok_or("a tag names no member")?,
        })
    }

    fn ring_some(&mut self, first: &SpscProducer) {
        let rings = std::iter::once(first).chain(&self.others);
        for (ring, is_unrung) in rings.zip(&mut self.is_unrung) {
            if std::mem::take(is_unrung) {
                ring.ring();
            }
        }
    }
}
