//! What sessions ask of shared listeners: to be a worker of one, and to make, change and end one.
//!
//! ```text
//! Join [listening socket] --> proof, rules, limits --> worker: [queue, page] --> Ready --> connections
//! Find, after bind(2) was refused --> [listening socket]
//! ```
//! `heliostat_service_listener` decides who takes part; `heliostat_server_listener` is the thread of each
//! listener, which accepts. Neither it nor the event loop waits for the other.

mod requests;
mod view;

use std::io;

use heliostat_abi::code::{Code, Thing};
use heliostat_abi::listener::request::{number, SERVICE};
use heliostat_abi::listener::ListenerRequest;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Asker, Row};
use heliostat_base::clock::monotonic_ns;
use heliostat_control::config::Config;
use heliostat_server_listener::Balancer;
use heliostat_service_grant::Quota;
use heliostat_service_listener::Effect;

use super::own_request;
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, Service, Told, Viewer};
use crate::refused::Refused;

/// Shared listeners, in the table of services.
pub struct PortSharing;

/// Restricted sessions share no address: no policy names it.
const fn row(name: &'static str, brings: usize, answers: u64) -> Row {
    let asker = Asker::Unrestricted;
    Row { name, brings: brings..=brings, keeps: brings as u64, answers, asker }
}

const REQUESTS: &[(u16, Row)] = &[
    (number::JOIN, row("listener_join", 1, 2)),
    (number::FIND, row("listener_find", 0, 1)),
    (number::LEAVE, row("listener_leave", 0, 0)),
    (number::READY, row("listener_ready", 0, 0)),
    (number::HOLD, row("listener_hold", 0, 0)),
    (number::CREATE, row("listener_create", 0, 0)),
    (number::REMOVE, row("listener_remove", 0, 0)),
    (number::DRAIN, row("listener_drain", 0, 0)),
    (number::SET_RULE, row("listener_set_rule", 0, 0)),
    (number::PLUGIN, row("listener_plugin", 1, 0)),
];

impl Service for PortSharing {
    fn number(&self) -> u16 {
        SERVICE
    }

    fn own_requests(&self) -> &'static [(u16, Row)] {
        REQUESTS
    }

    fn answer(&self, daemon: &mut Daemon, mut asked: Asked) -> Result<Answer, Refused> {
        let request = own_request(&asked, "shared listeners", ListenerRequest::decode)?;
        let shown = asked.fds.pop();
        daemon.answer_listener(asked.session, request, shown)
    }

    fn end(&self, daemon: &mut Daemon, session: ObjectId) {
        let mut effects = Vec::new();
        daemon.services.listener.grants.end(session, monotonic_ns(), &mut effects);
        daemon.carry_out_listener(effects);
    }

    fn revoke(&self, daemon: &mut Daemon, sessions: &[ObjectId]) -> usize {
        let mut effects = Vec::new();
        let grants = &mut daemon.services.listener.grants;
        let count = grants.revoke(sessions, monotonic_ns(), &mut effects);
        daemon.carry_out_listener(effects);
        count
    }

    fn pass_time(&self, daemon: &mut Daemon, now_ns: u64) {
        let mut effects = Vec::new();
        daemon.services.listener.pass_time(now_ns, &mut effects);
        daemon.carry_out_listener(effects);
    }

    fn next_deadline_ns(&self, daemon: &mut Daemon) -> Option<u64> {
        daemon.services.listener.grants.next_deadline_ns()
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        daemon.services.listener.set_limits(config);
    }

    fn quotas<'a>(&self, daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        daemon.services.listener.grants.quotas().into()
    }

    fn status(&self, daemon: &Daemon, viewer: Viewer, told: &mut Told) {
        told.insert("listeners".into(), daemon.listeners_json(viewer));
    }

    fn session_status(&self, daemon: &Daemon, session: ObjectId, told: &mut Told) {
        told.insert("listener_workers".into(), daemon.listener_workers_json(session));
    }

    fn explain(&self, daemon: &Daemon, sessions: &[ObjectId], told: &mut Told) {
        told.insert("shared_listeners".into(), daemon.worked_for_json(sessions));
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        let grants = &daemon.services.listener.grants;
        vec![
            ("shared_listeners", "Shared listeners now", grants.len() as u64),
            ("listener_workers", "Workers of shared listeners now", grants.worker_count() as u64),
        ]
    }
}

impl Daemon {
    /// Carries out what the service decided.
    pub(crate) fn carry_out_listener(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::WorkerEnds { listener, worker } => {
                    let thread = self.services.listener.thread(listener);
                    thread.into_iter().for_each(|thread| thread.end_worker(worker));
                }
                Effect::WorkerDismissed { listener, worker } => {
                    let thread = self.services.listener.thread(listener);
                    thread.into_iter().for_each(|thread| thread.dismiss(worker));
                }
                Effect::ListenerEnds(listener) => self.services.listener.end(listener),
            }
        }
    }

    /// Tells a listener's thread something, unless that is too far behind.
    fn tell_listener(
        &self,
        listener: ObjectId,
        tell: impl FnOnce(&Balancer) -> io::Result<()>,
    ) -> Result<(), Refused> {
        let thread = self.services.listener.thread(listener).map_err(|_| Code::NotFound)?;
        tell(thread).map_err(|error| requests::behind(&error))
    }
}
