//! A connection becomes a session, which alone may ask for grants.

use std::rc::Rc;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::Reply;
use heliostat_service_grant::Holder;
use tracing::{debug, warn};

use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::memory::Report;
use crate::refused::{full, Refused};
use crate::state::connection::{Pace, Session};

impl Daemon {
    /// Makes a connection a session: [node page, report].
    pub(crate) fn greet(&mut self, id: ObjectId, program: String) -> Result<Answer, Refused> {
        let connection = self.connections.get(id).ok_or(Code::Internal)?;
        if connection.session.is_some() {
            return Err(Code::BadState.into());
        }
        // Root may look at a user's daemon, but its sessions belong to root's own.
        if self.own_uid != 0 && connection.peer.subject.uid != self.own_uid {
            return Err(Code::Denied.into());
        }
        if connection.pace == Pace::Beyond {
            return Err(self.too_fast(Side::User, self.parts.config.limits.connects));
        }
        let holder = self.holder(id)?;
        self.sessions.take(holder, 1).map_err(|it| full(Thing::Sessions, it))?;
        let answer = self.begin_session(id, holder, &program);
        if answer.is_err() {
            self.sessions.give_back(holder, 1);
        }
        answer
    }

    fn begin_session(
        &mut self,
        id: ObjectId,
        holder: Holder,
        program: &str,
    ) -> Result<Answer, Refused> {
        let (report, report_fd) = Report::create().map_err(|error| {
            warn!(%error, "no memory for a report");
            Code::Internal
        })?;
        let node = self.node.fd().try_clone().map_err(|error| {
            warn!(%error, "no descriptor for the node page");
            Code::Internal
        })?;
        let connection = self.connections.get_mut(id).ok_or(Code::Internal)?;
        let program = printable(program);
        let namespace = connection.peer.namespace_name();
        debug!(session = %id, pid = connection.peer.pid, program, namespace, "a session begins");
        connection.session = Some(Session { program, namespace, report, holder });
        let pid = connection.peer.pid;
        self.visitors -= 1;
        self.node.set_session(id, State::Active);
        self.place_soon(pid);
        let reply = Reply::Welcome { session: id, boot: self.boot };
        Ok(Answer { reply, fds: vec![Rc::new(node), Rc::new(report_fd)] })
    }
}

/// A foreign text as it may stand in a log or on a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { '?' }).collect()
}

/// Neither a control character nor one that is not seen, as those are that turn a line round.
fn is_printable(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || c.escape_debug().len() == 1
}
