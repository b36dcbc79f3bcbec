//! Who may map a region, where neither rules nor its owner have said so before: somebody is asked.
//!
//! ```text
//! map --> open question --> told to the judge --> answered: a handle, or Unwilling
//!              |                    |
//!              +--- asker ends -----+--- deadline, or the judge ends: Unwilling
//! ```

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::memory::limits::ASK_DEADLINE_MS;
use heliostat_abi::memory::{Question, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Full;

use crate::asker::Asker;
use crate::memory::{Effect, Memory};
use crate::questions::{Open, QUESTIONS_MAX};
use crate::refusal::{Reason, Refusal};

/// What came of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Who asked, and waits.
    pub asker: Asker,
    /// Its handle.
    pub handle: Result<ObjectId, Refusal>,
}

impl Memory {
    /// The session of a handle answers who may map its region.
    pub fn judge(&mut self, session: ObjectId, handle: ObjectId) -> Result<(), Refusal> {
        let id = self.held_with(session, handle, Rights::SHARE)?;
        let region = self.regions.get_mut(id).ok_or(Reason::Stale { region: id })?;
        region.judge = Some(session);
        Ok(())
    }

    /// Asks whether somebody may map a region. `None` when nobody answers for it.
    pub fn ask(
        &mut self,
        asker: &Asker,
        process: u32,
        (region, rights): (ObjectId, Rights),
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<Option<u64>, Refusal> {
        self.revoked.check(asker.session)?;
        let judge = self.regions.get(region).and_then(|found| found.judge);
        let there = judge.filter(|judge| self.handles.session(*judge).is_some());
        let Some(judge) = there.filter(|judge| !self.revoked.has(*judge)) else { return Ok(None) };
        let asked = self.questions.open.values().filter(|open| open.judge == judge).count();
        if asked >= QUESTIONS_MAX {
            let limit = QUESTIONS_MAX as u64;
            return Err(Full::of(Thing::MemoryQuestions, Side::Session, limit).into());
        }
        let until_ns = now_ns.saturating_add(ASK_DEADLINE_MS * 1_000_000);
        let asker = *asker;
        let open = Open { asker, process, region, rights, judge, is_told: false, until_ns };
        self.questions.last += 1;
        self.questions.open.insert(self.questions.last, open);
        effects.push(Effect::Ring(judge));
        Ok(Some(self.questions.last))
    }

    /// The oldest question that a session has not been told.
    pub fn next_asked(&mut self, session: ObjectId) -> Result<Question, Refusal> {
        self.revoked.check(session)?;
        let mut open = self.questions.open.iter_mut();
        let next = open.find(|(_, open)| open.judge == session && !open.is_told);
        let (question, open) = next.ok_or(Reason::NoQuestion)?;
        open.is_told = true;
        let Open { asker, process, region, rights, .. } = *open;
        Ok(Question { question: *question, region, user: asker.uid, process, rights })
    }

    /// A session answers: with all that was asked for, or it is a no.
    pub fn answer(
        &mut self,
        session: ObjectId,
        question: u64,
        rights: Rights,
        effects: &mut Vec<Effect>,
    ) -> Result<Answered, Refusal> {
        self.revoked.check(session)?;
        let open = self.questions.open.get(&question).filter(|open| open.judge == session);
        let Open { asker, region, rights: wanted, .. } = *open.ok_or(Reason::NoQuestion)?;
        self.questions.open.remove(&question);
        if !rights.have(wanted) || !self.may_give(session, region, wanted) {
            return Ok(Answered { asker, handle: Err(Reason::Unwilling.into()) });
        }
        let handle = self.map(&asker, region, wanted, effects);
        Ok(Answered { asker, handle })
    }

    /// Nobody gives what it has not.
    fn may_give(&self, judge: ObjectId, region: ObjectId, rights: Rights) -> bool {
        let Some(region) = self.regions.get(region) else { return false };
        let mut its = region.handles.of_session(judge).filter_map(|whose| self.handles.get(whose));
        its.any(|handle| handle.rights.have(rights))
    }

    /// A session no longer waits for what it has asked.
    pub fn withdraw(&mut self, session: ObjectId) {
        self.questions.open.retain(|_, open| open.asker.session != session);
    }

    /// Ends the questions that nobody has answered in time.
    pub fn expire(&mut self, now_ns: u64) -> Vec<Answered> {
        let open = &mut self.questions.open;
        let late = open.iter().filter(|(_, open)| open.until_ns <= now_ns);
        let late: Vec<_> = late.map(|(question, _)| *question).collect();
        let ended = late.into_iter().filter_map(|question| open.remove(&question));
        ended
            .map(|open| Answered { asker: open.asker, handle: Err(Reason::Unwilling.into()) })
            .collect()
    }

    /// When the next question ends by itself.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        self.questions.open.values().map(|open| open.until_ns).min()
    }
}
