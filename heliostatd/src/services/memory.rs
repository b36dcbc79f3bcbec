//! What sessions ask of the memory service: regions, handles on them, and what lies behind both.
//!
//! ```text
//! Allocate, Map ----> who may (rules, owner's word, somebody who is asked) --> handle
//! Arena, RegionPage -> a session that maps its own user's memory (direct)
//! Session [window] --> a server loop carries operations out (delegated)
//! ```
//! `heliostat_service_memory` decides; here the kernel's facts come in and the effects go out.

mod asked;
mod carry;
mod classes;
mod deliver;
mod departing;
mod moving;
mod remote;
mod replicated;
mod requests;
mod returned;
mod served;
mod there;
mod users;
mod view;

use std::io;

use heliostat_abi::code::Thing;
use heliostat_abi::memory::peer::REMOTE_HANDLES_MAX;
use heliostat_abi::memory::request::{number, SERVICE};
use heliostat_abi::memory::MemoryRequest;
use heliostat_abi::name::ObjectId;
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

/// Memory regions, in the table of services.
pub struct MemoryRegions;

const fn row(name: &'static str, brings: usize, answers: u64) -> Row {
    let asker = Asker::With(Services::MEMORY);
    Row { name, brings: brings..=brings, keeps: brings as u64, answers, asker }
}

const REQUESTS: &[(u16, Row)] = &[
    (number::ALLOCATE, row("memory_allocate", 0, 0)),
    (number::MAP, row("memory_map", 0, 0)),
    (number::LOCATE, row("memory_locate", 0, 0)),
    (number::ARENA, row("memory_arena", 0, 1)),
    (number::REGION_PAGE, row("memory_region_page", 0, 1)),
    (number::UNMAP, row("memory_unmap", 0, 0)),
    (number::FREE, row("memory_free", 0, 0)),
    (number::GROW, row("memory_grow", 0, 0)),
    (number::NAME, row("memory_name", 0, 0)),
    (number::APPOINT, row("memory_appoint", 0, 0)),
    (number::LASTING, row("memory_lasting", 0, 0)),
    (number::LIST, row("memory_list", 0, 0)),
    (number::SESSION, row("memory_session", 1, 1)),
    (number::ASK_ME, row("memory_ask_me", 1, 0)),
    (number::NEXT_ASKED, row("memory_next_asked", 0, 0)),
    (number::ANSWER, row("memory_answer", 0, 0)),
    (number::MAP_REGION, row("memory_map_region", 0, 0)),
    (number::ON, row("memory_on", 0, 0)),
    (number::REPLICATE, row("memory_replicate", 0, 0)),
    (number::CLASS, row("memory_class", 0, 0)),
    (number::END_SESSION, row("memory_end_session", 0, 0)),
    (number::MOVE, row("memory_move", 0, 0)),
    (number::MOVE_STATE, row("memory_move_state", 0, 0)),
    (number::PRESENCE, row("memory_presence", 0, 1)),
];

impl Service for MemoryRegions {
    fn number(&self) -> u16 {
        SERVICE
    }

    fn own_requests(&self) -> &'static [(u16, Row)] {
        REQUESTS
    }

    fn begin(&self, daemon: &mut Daemon) -> io::Result<()> {
        daemon.host_memory();
        Ok(())
    }

    fn answer(&self, daemon: &mut Daemon, mut asked: Asked) -> Result<Answer, Refused> {
        let request = own_request(&asked, "memory", MemoryRequest::decode)?;
        let shown = asked.fds.pop();
        daemon.answer_memory(asked.session, request, shown)
    }

    fn end(&self, daemon: &mut Daemon, session: ObjectId) {
        let mut effects = Vec::new();
        daemon.services.memory.grants.end(session, &mut effects);
        daemon.carry_out_memory(effects);
        daemon.end_remotes(session);
        daemon.leave_memory(session);
        drop(daemon.services.memory.presence.remove(&session));
    }

    fn revoke(&self, daemon: &mut Daemon, sessions: &[ObjectId]) -> usize {
        let mut effects = Vec::new();
        let count = daemon.services.memory.grants.revoke(sessions, &mut effects);
        daemon.carry_out_memory(effects);
        for session in sessions {
            daemon.end_remotes(*session);
            daemon.leave_memory(*session);
        }
        count
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        let memory = &mut daemon.services.memory;
        memory.grants.set_limits(shares::memory(config));
        let handles = shares::memory(config).handles;
        memory.across.remotes.set_limits(REMOTE_HANDLES_MAX, handles);
        if let Some(loops) = &mut memory.loops {
            loops.quota.set_shares(shares::memory_sessions(config));
        }
    }

    fn quotas<'a>(&self, daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        let memory = &daemon.services.memory;
        let loops = memory.loops.iter().map(|loops| (Thing::MemorySessions, &loops.quota));
        loops.chain(memory.grants.quotas()).collect()
    }

    fn node_asked(&self, daemon: &mut Daemon, asked: NodeAsked) {
        let (header, payload) = daemon.answer_memory_peer(asked.peer, &asked.header).encode();
        daemon.reply_node(asked.ask, header.to_vec(), payload);
    }

    fn node_answered(&self, daemon: &mut Daemon, token: u64, outcome: Outcome) {
        daemon.take_memory_answer(token, outcome);
    }

    fn node_joined(&self, daemon: &mut Daemon, peer: PeerNode) {
        daemon.settle_doubts(peer);
    }

    fn node_lost(&self, daemon: &mut Daemon, peer: PeerNode) {
        daemon.lose_keepers(peer);
        daemon.end_memory_users(peer);
        daemon.lose_remotes(peer);
    }

    fn pass_time(&self, daemon: &mut Daemon, now_ns: u64) {
        daemon.end_late_questions(now_ns);
        daemon.end_late_nodes(now_ns);
        daemon.go_on_with_moves(now_ns);
    }

    fn next_deadline_ns(&self, daemon: &mut Daemon) -> Option<u64> {
        let memory = &mut daemon.services.memory;
        let moves = memory.next_move_ns();
        let all = [memory.grants.next_expiry_ns(), memory.across.next_ns(), moves];
        all.into_iter().flatten().min()
    }

    fn status(&self, daemon: &Daemon, viewer: Viewer, told: &mut Told) {
        told.insert("memory".into(), daemon.memory_json(viewer));
    }

    fn session_status(&self, daemon: &Daemon, session: ObjectId, told: &mut Told) {
        told.insert("memory".into(), daemon.memory_held_json(session));
    }

    fn explain(&self, daemon: &Daemon, sessions: &[ObjectId], told: &mut Told) {
        let each = sessions.iter().filter_map(|session| daemon.memory_path_json(*session));
        told.insert("memory".into(), each.collect());
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        daemon.memory_gauges()
    }

    fn metrics(&self, daemon: &Daemon, registry: &mut Registry) {
        daemon.add_memory(registry);
    }
}
