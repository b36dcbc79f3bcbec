//! What the store service answers in the words of its protocol, and why it says no.

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_abi::store::{NotDone, StoreReply, Why};
use heliostat_service_grant::{Full, Reason as _};
use heliostat_service_store::{Failed, Reason, Refusal};
use tracing::debug;

use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::Refused;

/// A reply of the service as an answer.
pub(super) fn reply(reply: &StoreReply) -> Answer {
    Reply::Own(Box::new(reply.encode())).into()
}

/// A no: of the protocol (limits, rules, revocations), or of the store.
#[derive(Clone, Debug)]
pub(crate) enum No {
    /// By the envelope.
    Refused(Refused),
    /// By a reply of its own, and the code that counts it.
    NotDone(NotDone, Code),
}

impl From<Refused> for No {
    fn from(refused: Refused) -> No {
        No::Refused(refused)
    }
}

impl From<Code> for No {
    fn from(code: Code) -> No {
        No::Refused(code.into())
    }
}

impl From<Full> for No {
    fn from(full: Full) -> No {
        No::Refused(full.into())
    }
}

impl From<NotDone> for No {
    fn from(not_done: NotDone) -> No {
        No::NotDone(not_done, Code::BadState)
    }
}

impl From<Why> for No {
    fn from(why: Why) -> No {
        NotDone::from(why).into()
    }
}

impl Daemon {
    /// Answers with the no, and counts it.
    pub(super) fn tell_no(&mut self, answer: Result<Answer, No>) -> Result<Answer, Refused> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(No::Refused(refused)) => Err(refused),
            Err(No::NotDone(not_done, code)) => {
                self.counts.refused(code);
                Ok(reply(&StoreReply::NotDone(not_done)))
            }
        }
    }

    /// What the service has refused a session, with what people want to know of it.
    pub(super) fn no_of(&self, session: ObjectId, refusal: Refusal) -> No {
        debug!(%session, %refusal, "refused");
        let Refusal::Reason(reason) = refusal else { return No::Refused(refusal.into()) };
        No::NotDone(self.not_done(reason), reason.code())
    }

    fn not_done(&self, reason: Reason) -> NotDone {
        match reason {
            Reason::NotFound => Why::NotFound.into(),
            Reason::NameTaken => Why::NameTaken.into(),
            Reason::NoHandle { .. } => Why::NoHandle.into(),
            Reason::Denied { wanted, allowed } => {
                NotDone::of(Why::Denied, wanted.bits().into(), allowed.bits().into())
            }
            Reason::Busy => Why::Busy.into(),
            Reason::Ending => Why::Ending.into(),
            Reason::Empty => NotDone::of(Why::Size, 0, self.grain_bytes()),
            Reason::NotDirect(why) => NotDone::of(Why::NotDirect, 0, why as u64),
            Reason::Held { session, count } => {
                let pid = self.pid_of(session);
                NotDone { pid, ..NotDone::of(Why::Held, 0, count as u64) }
            }
            Reason::HasAlone { session } => {
                NotDone { pid: self.pid_of(session), ..Why::HasAlone.into() }
            }
            Reason::HasWriters { session, count } => {
                let pid = self.pid_of(session);
                NotDone { pid, ..NotDone::of(Why::HasWriters, 0, count as u64) }
            }
            Reason::Store(failed) => self.failed(failed),
        }
    }

    /// The process of a session, or 0 where it is gone.
    pub(super) fn pid_of(&self, session: ObjectId) -> u32 {
        self.session(session).map_or(0, |it| it.pid())
    }

    fn failed(&self, failed: Failed) -> NotDone {
        match failed {
            Failed::Size { wanted, grain } => NotDone::of(Why::Size, wanted, grain),
            Failed::NoRoom { wanted, free } => NotDone::of(Why::NoRoom, wanted, free),
            Failed::Fragmented { limit } => NotDone::of(Why::Fragmented, 0, limit),
            Failed::TooMany { limit } => NotDone::of(Why::TooMany, 0, limit),
            Failed::Zeroing { limit } => NotDone::of(Why::Zeroing, 0, limit),
            Failed::Held => Why::Held.into(),
            Failed::Device => self.device_failed(),
        }
    }

    /// The device has failed, and what it said.
    pub(super) fn device_failed(&self) -> NotDone {
        let why = self.services.store.open().and_then(|open| open.failed.clone());
        NotDone::told(Why::DeviceFailed, why.unwrap_or_default())
    }

    fn grain_bytes(&self) -> u64 {
        self.services.store.open().map_or(0, |open| open.facts.grain_bytes.into())
    }
}
