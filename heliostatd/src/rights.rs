//! What a session may do with a name, by the rules in force.

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_control::name::Name;
use heliostat_control::rights::Right;
use heliostat_control::rules::Decision;

use crate::daemon::Daemon;
use crate::refused::Refused;

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
