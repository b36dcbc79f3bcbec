//! Sessions whose socket operations are delegated: their loops, what those are told, and what they tell.

use std::rc::Rc;
use std::sync::Arc;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::file::delegated::DEPTH_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_abi::socket::limits::SOCKETS_PER_SESSION_MAX;
use heliostat_abi::socket::{Access, SocketReply};
use heliostat_base::clock::monotonic_ns;
use heliostat_control::name::tcp_name;
use heliostat_control::rights::Right;
use heliostat_server_loop::{map_window, Event, NewSession};
use heliostat_server_socket::{Guest, SocketEvent};
use tracing::{debug, error};

use super::judge::{first_port, ByRules};
use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::kernel::namespace_cookie;
use crate::poll::Source;
use crate::refused::{full, full_of, Refused};
use crate::shares;
use crate::state::socket::SocketLoops;

/// Events attended to before others are served.
const EVENTS_AT_ONCE: usize = 1024;

impl Daemon {
    /// A session wants its socket operations delegated: shown is [its window], the answer brings [rings].
    pub(super) fn serve_sockets(
        &mut self,
        id: ObjectId,
        shown: ReceivedFd,
    ) -> Result<Answer, Refused> {
        let (holder, guest) = (self.holder(id)?, self.guest(id)?);
        self.check_namespace(id)?;
        let config = &self.parts.config;
        let (window_bytes, rate) = {
            let subject = &self.session(id)?.peer.subject;
            (config.delegated.window_bytes, config.rates.of_session(subject))
        };
        let meters = &mut self.services.meters;
        let of = |rate| meters.of(rate, id, holder, monotonic_ns());
        let meter = rate.map_or_else(Default::default, of);
        let server = self.socket_loops()?;
        if server.sessions.contains_key(&id) {
            return Err(Code::BadState.into());
        }
        let room = server.loops.sessions_max();
        if server.sessions.len() >= room {
            return Err(full_of(Thing::SocketSessions, Side::Node, room as u64));
        }
        server.quota.check(holder, 1).map_err(|it| full(Thing::SocketSessions, it))?;
        let window = map_window(&shown, window_bytes).map_err(|error| {
            debug!(session = %id, %error, "no window");
            Refused::from(error)
        })?;
        let link = NewSession::create(window, meter, server.next_serial(), 0);
        let (rings, link) = link.map_err(|error| {
            debug!(session = %id, %error, "no rings");
            Code::Internal
        })?;
        server.begin(id, holder, link, guest);
        debug!(session = %id, "delegates socket operations");
        let sockets = SOCKETS_PER_SESSION_MAX as u32;
        let reply = SocketReply::Session { depth: DEPTH_MAX as u32, sockets };
        let answer: Answer = Reply::Own(Box::new(reply.encode())).into();
        Ok(Answer { fds: vec![Rc::new(rings)], ..answer })
    }

    /// Whose session it is, by the rules in force.
    fn guest(&mut self, id: ObjectId) -> Result<Guest, Refused> {
        let subject = self.session(id)?.peer.subject.clone();
        let shares = shares::sockets(&self.parts.config);
        let is_trusted = subject.uid == 0 || subject.uid == self.own_uid;
        let most = if is_trusted { shares.trusted } else { shares.user };
        let sockets = &mut self.services.socket;
        let confined = sockets.confined.get(&id).filter(|list| list.is_closed()).cloned();
        let budget = sockets.budget(subject.uid, most);
        let (user, rules) = (subject.uid, Arc::new(self.parts.config.rules.clone()));
        let (shared, first_port) = (Arc::new(self.parts.config.listeners.clone()), first_port());
        let judge = Arc::new(ByRules { subject, rules, confined, shared, first_port });
        Ok(Guest { user, judge, budget })
    }

    /// Sockets are made in the control plane's own network namespace, and are for nobody else's.
    fn check_namespace(&self, id: ObjectId) -> Result<(), Refused> {
        let own = namespace_cookie(&self.session(id)?.socket).map_err(|_| Code::Internal)?;
        match self.session(id)?.peer.namespace.0 == own {
            true => Ok(()),
            false => Err(Code::Unreachable.into()),
        }
    }

    /// The loops, which begin with the first session that asks.
    fn socket_loops(&mut self) -> Result<&mut SocketLoops, Refused> {
        let config = &self.parts.config;
        if config.delegated.sessions == 0 {
            return Err(Code::Denied.into());
        }
        if self.services.socket.server.is_none() {
            let started = SocketLoops::start(config).map_err(|error| {
                error!(%error, "no delegated sockets: the server loops cannot start");
                Code::Internal
            })?;
            self.poll.watch(&started.bell, Source::Sockets).map_err(|_| Code::Internal)?;
            self.services.socket.server = Some(started);
        }
        Ok(self.services.socket.server.as_mut().ok_or(Code::Internal)?)
    }

    /// A session's reach has changed.
    pub(super) fn tell_socket_session(&mut self, id: ObjectId) {
        let is_served =
            self.services.socket.server.as_ref().is_some_and(|it| it.sessions.contains_key(&id));
        let Some(guest) = is_served.then(|| self.guest(id).ok()).flatten() else { return };
        if let Some(server) = &self.services.socket.server {
            server.tell(id, guest);
        }
    }

    /// The rules have changed.
    pub(super) fn tell_socket_rules(&mut self) {
        let sessions = self.services.socket.server.iter().flat_map(|it| it.sessions.keys());
        let sessions: Vec<_> = sessions.copied().collect();
        sessions.into_iter().for_each(|id| self.tell_socket_session(id));
    }

    /// A session has ended, or has lost its rights; whether it was served.
    pub(super) fn end_sockets(&mut self, id: ObjectId) -> bool {
        let Some(server) = &mut self.services.socket.server else { return false };
        let was_served = server.sessions.contains_key(&id);
        server.end(id);
        was_served
    }

    /// Attends to what the loops tell.
    pub(crate) fn attend_sockets(&mut self) {
        let Some(server) = &self.services.socket.server else { return };
        let mut count = [0; 8];
        let _ = rustix::io::read(&server.bell, &mut count);
        for _ in 0..EVENTS_AT_ONCE {
            let received = self.services.socket.server.as_ref().map(|it| it.events.try_recv());
            let Some(Ok(event)) = received else { return };
            match event {
                Event::Service(SocketEvent::Refused(id, access, address, refusals)) => {
                    let left_out = refusals.take();
                    let right = match access {
                        Access::Connect => Right::Connect,
                        Access::Listen => Right::Listen,
                    };
                    let Ok(session) = self.session(id) else { continue };
                    let uid = session.peer.subject.uid;
                    if let Ok(decision) = self.decide(id, right, address, uid) {
                        let right = right.to_string();
                        self.denials.note(uid, &right, &tcp_name(address), decision);
                        self.denials.note_left_out(uid, &right, left_out);
                    }
                }
                Event::Broken(session, how) => self.end_connection(session, how),
                Event::Gone => return self.lose_socket_loop(),
            }
        }
        // More of them: the bell brings us back after the others.
        let bell = self.services.socket.server.as_ref().map(|it| it.bell.clone());
        if let Some(bell) = bell {
            let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
        }
    }

    /// A loop's thread has ended, which it never does by itself. All loops end with it, and their
    /// sessions; the next that asks starts others.
    fn lose_socket_loop(&mut self) {
        let Some(server) = self.services.socket.server.take() else { return };
        error!(sessions = server.sessions.len(), "a server loop of sockets has ended");
        self.poll.ignore(&server.bell);
        for id in server.sessions.into_keys() {
            self.end_connection(id, "a server loop has ended");
        }
    }
}
