//! Sessions that call and serve: their loop, what it is told, and what it tells.

use std::rc::Rc;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::file::delegated::DEPTH_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::{FunctionInfo, RpcReply};
use heliostat_server_loop::{map_window, Event, NewSession};
use heliostat_server_node::PeerNode;
use heliostat_server_rpc::{Role, RpcOrder, ServedFunction, Who};
use heliostat_service_grant::{is_of_peer, Meter};
use heliostat_service_rpc::{Asker, Effect};
use tracing::{debug, error};

use super::requests::reply;
use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::poll::Source;
use crate::refused::{full, full_of, refuse, Refused};
use crate::shares;
use crate::state::rpc::RpcLoop;

/// Events attended to before others are served.
const EVENTS_AT_ONCE: usize = 1024;

/// A function as the loop has to know it.
pub(super) fn served(info: FunctionInfo) -> ServedFunction {
    let FunctionInfo { function, user, request_bytes, reply_bytes, queue, .. } = info;
    ServedFunction { function, user, request_bytes, reply_bytes, queue }
}

impl Daemon {
    /// A session wants its operations delegated: shown is [its window], the answer brings [rings].
    pub(super) fn serve_rpc(
        &mut self,
        asker: &Asker,
        shown: ReceivedFd,
    ) -> Result<Answer, Refused> {
        let id = asker.session;
        let config = self.parts.config.rpc;
        let server = self.rpc_loop()?;
        if server.sessions.contains_key(&id) {
            return Err(Code::BadState.into());
        }
        let room = server.loops.sessions_max();
        if server.sessions.len() >= room {
            return Err(full_of(Thing::RpcSessions, Side::Node, room as u64));
        }
        server.quota.check(asker.holder, 1).map_err(|it| full(Thing::RpcSessions, it))?;
        let window = map_window(&shown, config.window_bytes).map_err(|error| {
            debug!(session = %id, %error, "no window");
            Refused::from(error)
        })?;
        let link = NewSession::create(window, Meter::default(), server.next_serial(), 0);
        let (rings, link) = link.map_err(|error| {
            debug!(session = %id, %error, "no rings");
            Code::Internal
        })?;
        let mut effects = Vec::new();
        let rpc = &mut self.services.rpc;
        rpc.grants.serve(id, &mut effects).map_err(refuse(id))?;
        if let Some(server) = &mut rpc.server {
            server.begin(id, asker.holder, link);
        }
        self.carry_out_rpc(effects);
        self.open_functions_there(id);
        debug!(session = %id, "calls and serves functions");
        let functions = u32::try_from(config.functions_per_session).unwrap_or(u32::MAX);
        let answer = reply(&RpcReply::Session { depth: DEPTH_MAX as u32, functions });
        Ok(Answer { fds: vec![Rc::new(rings)], ..answer })
    }

    /// The loop, which begins with the first session that asks.
    pub(super) fn rpc_loop(&mut self) -> Result<&mut RpcLoop, Refused> {
        let config = &self.parts.config;
        if config.rpc.sessions == 0 {
            return Err(Code::Denied.into());
        }
        let rpc = &mut self.services.rpc;
        if rpc.server.is_none() {
            let cluster = self.services.cluster.as_ref();
            let replies = cluster.map(|cluster| cluster.nodes.replies());
            let started =
                RpcLoop::start(shares::rpc_sessions(config), replies).map_err(|error| {
                    error!(%error, "no remote procedure calls: the server loop cannot start");
                    Code::Internal
                })?;
            self.poll.watch(&started.bell, Source::Rpc).map_err(|_| Code::Internal)?;
            rpc.grants.all().into_iter().for_each(|it| started.tell(RpcOrder::Serve(served(it))));
            if let (Some(hosted), Some(gate)) = (&rpc.across.hosted, started.gate()) {
                hosted.send(gate);
            }
            for peer in cluster.iter().flat_map(|cluster| cluster.joined.values().copied()) {
                let caller = cluster.map(|cluster| cluster.nodes.caller());
                caller.into_iter().for_each(|caller| {
                    started.tell(RpcOrder::Joined { peer, caller });
                });
            }
            rpc.server = Some(started);
        }
        Ok(rpc.server.as_mut().ok_or(Code::Internal)?)
    }

    /// Tells the loop what was decided.
    pub(super) fn carry_out_rpc(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let order = match effect {
                Effect::Serve(function) => {
                    let info = self.services.rpc.grants.info(function);
                    info.map(|info| RpcOrder::Serve(served(info)))
                }
                Effect::Gone(function) => {
                    self.services.rpc.across.uses.forget(function);
                    Some(RpcOrder::Gone { function })
                }
                Effect::Grant { session, function, role } if is_of_peer(session) => {
                    self.grant_to_user(session, function, role);
                    None
                }
                Effect::Grant { session, function, role } => {
                    let role = Role { serves: role.serves, calls: role.calls };
                    let who = self.who_calls(session);
                    Some(RpcOrder::Grant { session, who, function, role })
                }
            };
            if let (Some(order), Some(server)) = (order, &self.services.rpc.server) {
                server.tell(order);
            }
        }
    }

    /// Who a session is to those whom it calls; none where it has ended.
    pub(super) fn who_calls(&self, session: ObjectId) -> Option<Who> {
        let found = self.session(session).ok()?;
        Some(Who { user: found.peer.subject.uid, process: found.pid() })
    }

    /// A session is served no more.
    pub(super) fn leave_rpc(&mut self, session: ObjectId) {
        if let Some(server) = &mut self.services.rpc.server {
            server.end(session);
        }
    }

    /// A node is joined: calls may go there.
    pub(super) fn open_way_to(&self, peer: PeerNode) {
        if let (Some(server), Some(cluster)) = (&self.services.rpc.server, &self.services.cluster) {
            server.tell(RpcOrder::Joined { peer, caller: cluster.nodes.caller() });
        }
    }

    /// Attends to what the loop tells.
    pub(crate) fn attend_rpc(&mut self) {
        let Some(server) = &self.services.rpc.server else { return };
        let mut count = [0; 8];
        let _ = rustix::io::read(&server.bell, &mut count);
        let bell = server.bell.clone();
        for _ in 0..EVENTS_AT_ONCE {
            let received = self.services.rpc.server.as_ref().map(|it| it.events.try_recv());
            let Some(Ok(event)) = received else { return };
            match event {
                Event::Service(event) => match event {},
                Event::Broken(session, how) => self.end_connection(session, how),
                Event::Gone => self.lose_rpc_loop(),
            }
        }
        // More of them: the bell brings us back after the others.
        let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
    }

    /// The loop's thread has ended, which it never does by itself. Its sessions end with it, and the
    /// next one starts another.
    fn lose_rpc_loop(&mut self) {
        let Some(server) = self.services.rpc.server.take() else { return };
        self.poll.ignore(&server.bell);
        let sessions: Vec<_> = server.sessions.into_keys().collect();
        error!(sessions = sessions.len(), "the server loop of remote procedure calls has ended");
        sessions.into_iter().for_each(|id| self.end_connection(id, "a server loop has ended"));
    }
}
