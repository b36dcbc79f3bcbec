//! What sessions ask of the lock service: names, what is acquired by them, and how waiting ends.
//!
//! ```text
//! Open ------------> rule, shape ---> handle
//! Acquire, Arrive -> granted now, or a ticket that waits
//! its end ---------> bell rings --> Next tells
//! ```
//! No answer is held back: a program that waits for an hour waits for its bell, and every request is
//! answered at once, so that its other threads ask meanwhile. `heliostat_service_lock` decides.

mod elsewhere;
mod foreign;
mod post;
mod requests;
mod settle;
mod view;

use heliostat_abi::code::Thing;
use heliostat_abi::lock::request::{number, SERVICE};
use heliostat_abi::lock::LockRequest;
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

/// Locks, semaphores and barriers, in the table of services.
pub struct NamedLocks;

const fn row(name: &'static str, brings: usize) -> Row {
    let asker = Asker::With(Services::LOCKS);
    Row { name, brings: brings..=brings, keeps: brings as u64, answers: 0, asker }
}

/// Of what a policy does not name: who else has locks here, and those of other nodes.
const fn row_of_all(name: &'static str) -> Row {
    Row { asker: Asker::Unrestricted, ..row(name, 0) }
}

const REQUESTS: &[(u16, Row)] = &[
    (number::OPEN, row("lock_open", 0)),
    (number::CLOSE, row("lock_close", 0)),
    (number::ACQUIRE, row("lock_acquire", 0)),
    (number::RELEASE, row("lock_release", 0)),
    (number::CANCEL, row("lock_cancel", 0)),
    (number::NEXT, row("lock_next", 0)),
    (number::ARRIVE, row("lock_arrive", 0)),
    (number::RESET, row("lock_reset", 0)),
    (number::BELL, row("lock_bell", 1)),
    (number::LIST, row_of_all("lock_list")),
    (number::ON, row_of_all("lock_on")),
];

impl Service for NamedLocks {
    fn number(&self) -> u16 {
        SERVICE
    }

    fn own_requests(&self) -> &'static [(u16, Row)] {
        REQUESTS
    }

    fn answer(&self, daemon: &mut Daemon, mut asked: Asked) -> Result<Answer, Refused> {
        let request = own_request(&asked, "locks", LockRequest::decode)?;
        let shown = asked.fds.pop();
        daemon.answer_lock(asked.session, request, shown)
    }

    fn end(&self, daemon: &mut Daemon, session: ObjectId) {
        let mut effects = Vec::new();
        daemon.services.lock.grants.end(session, &mut effects);
        daemon.carry_out_lock(effects);
        daemon.end_lock_elsewhere(session);
        daemon.services.lock.drop_bell(session);
    }

    fn revoke(&self, daemon: &mut Daemon, sessions: &[ObjectId]) -> usize {
        let mut effects = Vec::new();
        let count = daemon.services.lock.grants.revoke(sessions, &mut effects);
        daemon.carry_out_lock(effects);
        sessions.iter().for_each(|session| daemon.end_lock_elsewhere(*session));
        // Whoever waits hears the end, asks, and is told why.
        sessions.iter().for_each(|session| daemon.services.lock.drop_bell(*session));
        count
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        let lock = &mut daemon.services.lock;
        let limits = shares::locks(config);
        lock.grants.set_limits(limits);
        lock.across.remotes.set_shares(limits.handles, limits.tickets);
        lock.quota.set_shares(shares::lock_bells(config));
    }

    fn quotas<'a>(&self, daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        let lock = &daemon.services.lock;
        let bells = std::iter::once((Thing::LockBells, &lock.quota));
        bells.chain(lock.grants.quotas()).collect()
    }

    fn node_asked(&self, daemon: &mut Daemon, asked: NodeAsked) {
        let NodeAsked { ask, peer, header, payload, class, .. } = asked;
        let answer = daemon.answer_lock_peer((peer, class), &header, &payload);
        let (header, payload) = answer.encode();
        daemon.reply_node(ask, header.to_vec(), payload);
    }

    fn node_answered(&self, daemon: &mut Daemon, token: u64, outcome: Outcome) {
        daemon.take_lock_answer(token, outcome);
    }

    fn node_lost(&self, daemon: &mut Daemon, peer: PeerNode) {
        daemon.end_foreign_locks(peer);
        daemon.lose_lock_node(peer);
    }

    fn pass_time(&self, daemon: &mut Daemon, now_ns: u64) {
        daemon.end_late_lock_asks(now_ns);
    }

    fn next_deadline_ns(&self, daemon: &mut Daemon) -> Option<u64> {
        daemon.services.lock.across.next_ns()
    }

    fn status(&self, daemon: &Daemon, viewer: Viewer, told: &mut Told) {
        told.insert("locks".into(), daemon.locks_json(viewer));
    }

    fn session_status(&self, daemon: &Daemon, session: ObjectId, told: &mut Told) {
        told.insert("locks".into(), daemon.locks_held_json(session));
    }

    fn explain(&self, daemon: &Daemon, sessions: &[ObjectId], told: &mut Told) {
        let each = sessions.iter().filter_map(|session| daemon.lock_waits_json(*session));
        told.insert("locks".into(), each.collect());
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        daemon.lock_gauges()
    }

    fn metrics(&self, daemon: &Daemon, registry: &mut Registry) {
        daemon.add_locks(registry);
    }
}
