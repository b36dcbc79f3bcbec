//! What only the owner of the control plane and root may ask: to revoke and to stop.

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::Reply;
use tracing::info;

use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::Refused;

impl Daemon {
    /// Ends the grants of every session of a process.
    pub(crate) fn revoke(&mut self, id: ObjectId, pid: u32) -> Result<Answer, Refused> {
        self.check_owner(id)?;
        let sessions = self.sessions_of(pid);
        if sessions.is_empty() {
            return Err(Code::NotFound.into());
        }
        sessions.iter().for_each(|session| self.node.set_session(*session, State::Revoked));
        for service in self.parts.table {
            let (number, count) = (service.number(), service.revoke(self, &sessions));
            info!(pid, sessions = sessions.len(), service = number, count, "grants revoked");
        }
        Ok(Reply::Done.into())
    }

    /// Ends the control plane; the answer is sent before it does.
    pub(crate) fn stop(&mut self, id: ObjectId) -> Result<Answer, Refused> {
        self.check_owner(id)?;
        info!("told to end by a request");
        self.stopping = true;
        Ok(Reply::Done.into())
    }

    fn check_owner(&self, id: ObjectId) -> Result<(), Refused> {
        if self.is_owner(id) {
            Ok(())
        } else {
            Err(Code::Denied.into())
        }
    }
}
