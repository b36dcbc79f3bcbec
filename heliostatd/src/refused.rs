//! Why a request is refused, in the words of the protocol, whichever service refuses it.

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::record::Bound;
use heliostat_control::name::Name;
use heliostat_control::rights::Right;
use heliostat_control::rules::Decision;
use heliostat_service_grant::{Full, Reason, Refusal};
use tracing::debug;

use crate::daemon::Daemon;

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The code.
    pub code: Code,
    /// The limit in force, or zero.
    pub limit: u64,
    /// On what, and whose.
    pub bound: Bound,
}

impl From<Code> for Refused {
    fn from(code: Code) -> Self {
        Refused { code, limit: 0, bound: Bound::NONE }
    }
}

impl From<Full> for Refused {
    fn from(Full { bound, limit }: Full) -> Self {
        Refused { code: Code::Full, limit, bound }
    }
}

impl<R: Reason> From<Refusal<R>> for Refused {
    fn from(refusal: Refusal<R>) -> Self {
        match refusal {
            Refusal::Full(full) => full.into(),
            Refusal::Revoked => Code::Revoked.into(),
            Refusal::Reason(reason) => reason.code().into(),
        }
    }
}

/// What a service refused a session, logged.
pub fn refuse<R: Reason>(session: ObjectId) -> impl FnOnce(Refusal<R>) -> Refused {
    move |refusal| {
        debug!(%session, %refusal, "refused");
        refusal.into()
    }
}

impl Daemon {
    /// Whether a session may do something with a name that belongs to a user.
    pub(crate) fn decide<'a>(
        &self,
        id: ObjectId,
        right: Right,
        name: impl Into<Name<'a>>,
        owner: u32,
    ) -> Result<Decision, Refused> {
        let subject = &self.session(id)?.peer.subject;
        Ok(self.parts.config.rules.decide(subject, right, name, owner))
    }

    /// Refuses what a session may not do with a name, and counts it for people.
    pub(crate) fn check_right<'a>(
        &mut self,
        id: ObjectId,
        right: Right,
        name: impl Into<Name<'a>>,
        owner: u32,
    ) -> Result<(), Refused> {
        let name = name.into();
        let decision = self.decide(id, right, name, owner)?;
        if decision.is_allowed() {
            return Ok(());
        }
        let uid = self.session(id)?.peer.subject.uid;
        self.denials.note(uid, &right.to_string(), &name.to_string(), decision);
        Err(Code::Denied.into())
    }
}
