//! Changes whose answer comes later: who waits for which, and for how long.
//!
//! ```text
//! change -> waits -- done ----------------------------------------> its answer
//!             |   it takes long                     done
//!             '-----------------> Later, goes on ---------> kept -- Outcome --> its answer
//!                                     ^---- Outcome, and it takes long ----'
//! ```
//! A program gives up a control plane that does not answer within half a second, and a device may take
//! longer. So who waits is told before, and asks again; until it has asked how the change ended it makes
//! no other.

use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_abi::store::{StoreReply, Why};
use heliostat_base::clock::monotonic_ns;
use heliostat_service_store::{Answered, Areas, Asker, Effect, Question, Refusal};

use super::no::{reply, No};
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::state::store::{Pending, State, Waiting};

/// How long an answer is waited for: less than a program waits for the control plane.
const ANSWER_NS: u64 = 350_000_000;

impl Daemon {
    /// Asks the service for a change, whose answer comes later.
    pub(super) fn change_area(
        &mut self,
        id: ObjectId,
        pending: Pending,
        ask: impl FnOnce(&mut Areas, u64, &mut Vec<Effect>) -> Result<(), Refusal>,
    ) -> Result<Answer, No> {
        let sequence = self.sequence_of(id)?;
        if self.services.store.waiting.contains_key(&id) {
            return Err(Why::Busy.into());
        }
        let (mut effects, number) = (Vec::new(), u64::from(sequence));
        let open = self.usable_store()?;
        let asked = ask(&mut open.areas, number, &mut effects);
        asked.map_err(|refusal| self.no_of(id, refusal))?;
        let (until_ns, sequence) = (monotonic_ns() + ANSWER_NS, Some(sequence));
        let waiting = Waiting { pending, number, sequence, until_ns, outcome: None };
        self.services.store.waiting.insert(id, waiting);
        self.answer_later(id);
        // It may be answered here already.
        self.carry_out_store(effects);
        // Not sent: `answer_later` says so.
        Ok(Reply::Done.into())
    }

    /// A session asks how its change has ended.
    pub(super) fn change_outcome(&mut self, id: ObjectId) -> Result<Answer, No> {
        let sequence = self.sequence_of(id)?;
        let waiting = self.services.store.waiting.get_mut(&id).ok_or(Why::NoHandle)?;
        if let Some(outcome) = waiting.outcome {
            let pending = waiting.pending.clone();
            self.services.store.waiting.remove(&id);
            return self.changed_answer(id, pending, outcome);
        }
        (waiting.sequence, waiting.until_ns) = (Some(sequence), monotonic_ns() + ANSWER_NS);
        self.answer_later(id);
        // Not sent: `answer_later` says so.
        Ok(Reply::Done.into())
    }

    /// A change has come to its end: its session is told, now or when it asks.
    pub(super) fn answer_question(
        &mut self,
        Question { session, number }: Question,
        outcome: Result<Answered, Refusal>,
    ) {
        let waiting = self.services.store.waiting.get_mut(&session);
        let Some(waiting) = waiting.filter(|it| it.number == number) else { return };
        let Some(sequence) = waiting.sequence else {
            waiting.outcome = Some(outcome);
            return;
        };
        let pending = waiting.pending.clone();
        self.services.store.waiting.remove(&session);
        let answer = self.changed_answer(session, pending, outcome);
        self.answer_store_late(session, sequence, answer);
    }

    fn changed_answer(
        &mut self,
        session: ObjectId,
        pending: Pending,
        outcome: Result<Answered, Refusal>,
    ) -> Result<Answer, No> {
        let answered = outcome.map_err(|refusal| self.no_of(session, refusal))?;
        match (pending, answered) {
            (Pending::Create { name, wish }, Answered::Area(_)) => {
                let uid = self.session(session)?.peer.subject.uid;
                let (holder, is_user) = (self.holder(session)?, !self.is_restricted(session));
                let asker = Asker { session, holder, uid, is_user };
                self.open_area(&asker, (uid, name), wish)
            }
            (Pending::Resize, Answered::Area(area)) => {
                let open = self.open_store_even_failed()?;
                let bytes = open.areas.view(area).map_or(0, |view| view.bytes);
                Ok(reply(&StoreReply::Changed { bytes }))
            }
            _ => Ok(Reply::Done.into()),
        }
    }

    /// Answers a request that was put off, if its session waits for it still.
    pub(super) fn answer_store_late(
        &mut self,
        session: ObjectId,
        sequence: u32,
        answer: Result<Answer, No>,
    ) {
        let answer = self.tell_no(answer);
        self.answer_late_to(session, sequence, answer);
    }

    /// Tells those who have waited long that their change takes longer.
    pub(crate) fn end_late_changes(&mut self, now_ns: u64) {
        if self.services.store.next_ns().is_none_or(|until| until > now_ns) {
            return;
        }
        let mut late = Vec::new();
        for (session, waiting) in &mut self.services.store.waiting {
            if waiting.until_ns <= now_ns {
                late.extend(waiting.sequence.take().map(|sequence| (*session, sequence)));
            }
        }
        for (session, sequence) in late {
            self.answer_store_late(session, sequence, Err(Why::Later.into()));
        }
    }

    /// A session that waits for a change has asked something else, or has gone: the change goes on, and
    /// nobody is told how it ends. Whether it waited for one.
    pub(crate) fn give_up_store_waiting(&mut self, session: ObjectId) -> bool {
        let store = &mut self.services.store;
        let waits = store.waiting.get(&session).is_some_and(|it| it.sequence.is_some());
        let mut has_waited = waits && store.waiting.remove(&session).is_some();
        if let State::Opening { waiter, .. } = &mut store.state {
            has_waited |= waiter.take_if(|(waiter, _)| *waiter == session).is_some();
        }
        if has_waited {
            let answer = self.tell_no(Err(Why::Later.into()));
            self.answer_late(session, answer);
        }
        has_waited
    }
}
