//! Owners that are asked who may map their regions, and who waits for what they say.
//!
//! ```text
//! Map --> held back --ring--> owner: NextAsked, Answer --> Map is answered
//!             '-- deadline, or the owner ends: Unwilling
//! ```

use heliostat_abi::code::Code;
use heliostat_abi::memory::{MemoryReply, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_service_grant::is_of_peer;
use heliostat_service_memory::{Answered, Asker, Key, Reason, Refusal};
use tracing::debug;

use super::requests::{reply, Denial};
use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};
use crate::shown;

impl Daemon {
    /// A session answers for the region of a handle: shown is [its bell].
    pub(super) fn judge_memory(
        &mut self,
        id: ObjectId,
        handle: ObjectId,
        shown: ReceivedFd,
    ) -> Result<Answer, Refused> {
        if !shown::is_bell(&shown) {
            debug!(session = %id, "no bell: only a unix socket can be rung without waiting");
            return Err(Code::BadRecord.into());
        }
        let memory = &mut self.services.memory;
        memory.grants.judge(id, handle).map_err(refuse(id))?;
        memory.bells.insert(id, shown);
        Ok(Reply::Done.into())
    }

    /// Asks the owner. The answer to whoever wants to map is held back.
    pub(super) fn ask_owner(
        &mut self,
        asker: &Asker,
        key: &Key,
        wanted: (ObjectId, Rights),
        denial: Denial,
    ) -> Result<Answer, Refused> {
        let id = asker.session;
        // Several programs of another node ask as one: who answers could not tell them apart.
        if is_of_peer(id) {
            return Err(self.deny_map(asker, key, denial));
        }
        let process = self.session(id)?.pid();
        let (mut effects, now) = (Vec::new(), monotonic_ns());
        let grants = &mut self.services.memory.grants;
        let asked = grants.ask(asker, process, wanted, now, &mut effects).map_err(refuse(id))?;
        if asked.is_none() {
            return Err(self.deny_map(asker, key, denial));
        }
        self.answer_later(id);
        self.carry_out_memory(effects);
        debug!(session = %id, region = %wanted.0, "its owner is asked");
        // Not sent: `answer_later` says so.
        Ok(Reply::Done.into())
    }

    /// The oldest question that a session has not been told.
    pub(super) fn next_asked(&mut self, id: ObjectId) -> Result<Answer, Refused> {
        let question = self.services.memory.grants.next_asked(id).map_err(refuse(id))?;
        Ok(reply(&MemoryReply::Asked(question)))
    }

    /// A session answers.
    pub(super) fn answer_asked(
        &mut self,
        id: ObjectId,
        question: u64,
        rights: Rights,
    ) -> Result<Answer, Refused> {
        let mut effects = Vec::new();
        let grants = &mut self.services.memory.grants;
        let answered = grants.answer(id, question, rights, &mut effects);
        self.carry_out_memory(effects);
        self.tell_asker(answered.map_err(refuse(id))?);
        Ok(Reply::Done.into())
    }

    fn tell_asker(&mut self, answered: Answered) {
        let id = answered.asker.session;
        let answer = match answered.handle {
            Ok(handle) => self.granted_memory(id, handle, 0),
            Err(refusal) => Err(refuse(id)(refusal)),
        };
        self.answer_late(id, answer);
    }

    /// Ends the questions that nobody has answered in time.
    pub(crate) fn end_late_questions(&mut self, now_ns: u64) {
        let grants = &mut self.services.memory.grants;
        if grants.next_expiry_ns().is_none_or(|deadline| now_ns < deadline) {
            return;
        }
        grants.expire(now_ns).into_iter().for_each(|answered| self.tell_asker(answered));
    }

    /// A connection that waits for an owner has asked something else, or has gone.
    pub(crate) fn give_up_question(&mut self, id: ObjectId) {
        self.services.memory.grants.withdraw(id);
        let unwilling: Refusal = Reason::Unwilling.into();
        self.answer_late(id, Err(unwilling.into()));
    }
}
