//! What sessions ask of the service of remote procedure calls.
//!
//! ```text
//! Publish, Find ----> who may (rules, the publisher's word) --> function; the loop hears of the role
//! Session [window] -> the server loop takes calls, receives and replies
//! ```
//! `heliostat_service_rpc` decides; here the kernel's facts come in and the effects go out.

mod remote;
mod requests;
mod returned;
mod served;
mod users;
mod view;

use std::io;

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::request::{number, SERVICE};
use heliostat_abi::rpc::RpcRequest;
use heliostat_abi::session::record::{Asker, Row};
use heliostat_abi::session::restriction::Services;
use heliostat_control::config::Config;
use heliostat_server_node::{Outcome, PeerNode};
use heliostat_service_grant::Quota;
use prometheus_client::registry::Registry;

use super::own_request;
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, NodeAsked, Service, Told, Viewer};
use crate::refused::Refused;
use crate::shares;

/// Remote procedure calls, in the table of services.
pub struct RemoteCalls;

const fn row(name: &'static str, brings: usize, answers: u64) -> Row {
    let asker = Asker::With(Services::CALLS);
    Row { name, brings: brings..=brings, keeps: brings as u64, answers, asker }
}

/// Of what a policy does not name.
const fn row_of_all(name: &'static str) -> Row {
    Row { asker: Asker::Unrestricted, ..row(name, 0, 0) }
}

const REQUESTS: &[(u16, Row)] = &[
    (number::PUBLISH, row("rpc_publish", 0, 0)),
    (number::FIND, row("rpc_find", 0, 0)),
    (number::LEAVE, row("rpc_leave", 0, 0)),
    (number::SESSION, row("rpc_session", 1, 1)),
    (number::LIST, row_of_all("rpc_list")),
    (number::LIST_ON, row_of_all("rpc_list_on")),
];

impl Service for RemoteCalls {
    fn number(&self) -> u16 {
        SERVICE
    }

    fn own_requests(&self) -> &'static [(u16, Row)] {
        REQUESTS
    }

    fn begin(&self, daemon: &mut Daemon) -> io::Result<()> {
        daemon.host_rpc();
        Ok(())
    }

    fn answer(&self, daemon: &mut Daemon, mut asked: Asked) -> Result<Answer, Refused> {
        let request = own_request(&asked, "remote procedure calls", RpcRequest::decode)?;
        let shown = asked.fds.pop();
        daemon.answer_rpc(asked.session, request, shown)
    }

    fn end(&self, daemon: &mut Daemon, session: ObjectId) {
        let mut effects = Vec::new();
        daemon.services.rpc.grants.end(session, &mut effects);
        daemon.carry_out_rpc(effects);
        daemon.end_functions_there(session);
        daemon.leave_rpc(session);
    }

    fn revoke(&self, daemon: &mut Daemon, sessions: &[ObjectId]) -> usize {
        let mut effects = Vec::new();
        let count = daemon.services.rpc.grants.revoke(sessions, &mut effects);
        daemon.carry_out_rpc(effects);
        for session in sessions {
            daemon.end_functions_there(*session);
            daemon.leave_rpc(*session);
        }
        count
    }

    fn node_joined(&self, daemon: &mut Daemon, peer: PeerNode) {
        daemon.open_way_to(peer);
    }

    fn node_lost(&self, daemon: &mut Daemon, peer: PeerNode) {
        daemon.end_rpc_users(peer);
        daemon.lose_functions_there(peer);
    }

    fn node_asked(&self, daemon: &mut Daemon, asked: NodeAsked) {
        let (header, payload) = daemon.answer_rpc_peer(asked.peer, &asked.header).encode();
        daemon.reply_node(asked.ask, header.to_vec(), payload);
    }

    fn node_answered(&self, daemon: &mut Daemon, token: u64, outcome: Outcome) {
        daemon.take_rpc_answer(token, outcome);
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        let rpc = &mut daemon.services.rpc;
        let limits = shares::rpc(config);
        rpc.grants.set_limits(limits);
        rpc.across.remotes.set_limits(limits.functions_per_session, limits.functions);
        if let Some(server) = &mut rpc.server {
            server.quota.set_shares(shares::rpc_sessions(config));
        }
    }

    fn quotas<'a>(&self, daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        let rpc = &daemon.services.rpc;
        let sessions = rpc.server.iter().map(|server| (Thing::RpcSessions, &server.quota));
        sessions.chain(rpc.grants.quotas()).collect()
    }

    fn pass_time(&self, daemon: &mut Daemon, now_ns: u64) {
        daemon.end_late_finds(now_ns);
    }

    fn next_deadline_ns(&self, daemon: &mut Daemon) -> Option<u64> {
        daemon.services.rpc.across.next_ns()
    }

    fn status(&self, daemon: &Daemon, viewer: Viewer, told: &mut Told) {
        told.insert("rpc".into(), daemon.rpc_json(viewer));
    }

    fn session_status(&self, daemon: &Daemon, session: ObjectId, told: &mut Told) {
        told.insert("rpc".into(), daemon.rpc_held_json(session));
    }

    fn explain(&self, daemon: &Daemon, sessions: &[ObjectId], told: &mut Told) {
        let each = sessions.iter().filter_map(|session| daemon.rpc_path_json(*session));
        told.insert("rpc".into(), each.collect());
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        daemon.rpc_gauges()
    }

    fn metrics(&self, daemon: &Daemon, registry: &mut Registry) {
        daemon.add_rpc(registry);
    }
}
