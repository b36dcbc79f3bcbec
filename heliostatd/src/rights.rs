//! What a session may do with a name, by the rules in force.

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_control::name::Name;
use heliostat_control::rights::Right;
use heliostat_control::rules::Decision;
use heliostat_service_socket::Within;

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
        let (name, subject) = (name.into(), &self.session(id)?.peer.subject);
        if !self.is_within_reach(id, right, name) {
            return Ok(Decision::Foreign);
        }
        Ok(self.parts.config.rules.decide(subject, right, name, owner))
    }

    /// Whether a file's name is within what its session is confined to, if it is.
    fn is_within_reach(&self, id: ObjectId, right: Right, name: Name<'_>) -> bool {
        let Name::File(path) = name else { return true };
        let wanted = if right == Right::Write { Within::Write } else { Within::Read };
        self.services.socket.confined.get(&id).is_none_or(|list| list.names(wanted, path))
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
