//! What only the owner of the control plane and root may ask: to revoke and to stop.

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::node::State;
use heliostat_abi::record::Reply;
use tracing::info;

use crate::connect::Connection;
use crate::daemon::Daemon;
use crate::refused::Refused;
use crate::serve::Answer;
use crate::services;

impl Daemon {
    /// Ends the grants of every session of a process.
    pub(crate) fn revoke(&mut self, id: ObjectId, pid: u32) -> Result<Answer, Refused> {
        self.check_owner(id)?;
        let sessions = self.sessions_of(pid);
        if sessions.is_empty() {
            return Err(Code::NotFound.into());
        }
        sessions.iter().for_each(|session| self.node.set_session(*session, State::Revoked));
        for service in services::all() {
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

    /// Every session of a process: those that it has been handed, and those that it connected
    /// itself, whatever it said of them.
    pub(crate) fn sessions_of(&self, pid: u32) -> Vec<ObjectId> {
        let is_its = |it: &Connection| it.pid() == pid || it.peer.pid == pid;
        let sessions = self.connections.iter().filter(|(_, it)| it.session.is_some() && is_its(it));
        sessions.map(|(id, _)| id).collect()
    }

    /// True for the user that the control plane runs as, and for root.
    pub(crate) fn is_owner(&self, id: ObjectId) -> bool {
        let uid = self.connections.get(id).map(|connection| connection.peer.subject.uid);
        uid == Some(0) || uid == Some(self.own_uid)
    }

    fn check_owner(&self, id: ObjectId) -> Result<(), Refused> {
        if self.is_owner(id) {
            Ok(())
        } else {
            Err(Code::Denied.into())
        }
    }
}
