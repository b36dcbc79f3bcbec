//! What sessions ask of the service of delegated sockets.
//!
//! ```text
//! Reach, Folder, Confine --> what stays within reach of a session that is handed on
//! Session [window] --------> a server loop has its sockets, by the rules and within that reach
//! ```

mod confine;
mod judge;
mod served;
mod view;

use heliostat_abi::code::{Code, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Asker, Row};
use heliostat_abi::socket::request::{number, SERVICE};
use heliostat_abi::socket::SocketRequest;
use heliostat_control::config::Config;
use heliostat_service_grant::Quota;
use prometheus_client::registry::Registry;

use super::own_request;
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, Service, Told, Viewer};
use crate::refused::Refused;
use crate::shares;

/// Delegated sockets, in the table of services.
pub struct SocketOperations;

/// Who is restricted has the supervisor's sockets, and none here.
const fn row(name: &'static str, brings: usize, answers: u64) -> Row {
    let asker = Asker::Unrestricted;
    Row { name, brings: brings..=brings, keeps: brings as u64, answers, asker }
}

const REQUESTS: &[(u16, Row)] = &[
    (number::SESSION, row("socket_session", 1, 1)),
    (number::REACH, row("socket_reach", 0, 0)),
    (number::FOLDER, row("socket_folder", 1, 0)),
    (number::CONFINE, row("socket_confine", 0, 0)),
];

impl Service for SocketOperations {
    fn number(&self) -> u16 {
        SERVICE
    }

    fn own_requests(&self) -> &'static [(u16, Row)] {
        REQUESTS
    }

    fn answer(&self, daemon: &mut Daemon, mut asked: Asked) -> Result<Answer, Refused> {
        let request = own_request(&asked, "delegated sockets", SocketRequest::decode)?;
        let (id, shown) = (asked.session, asked.fds.pop());
        match request {
            SocketRequest::Session => daemon.serve_sockets(id, shown.ok_or(Code::BadRecord)?),
            SocketRequest::Reach(access, to) => daemon.keep_address(id, access, to),
            SocketRequest::Folder { reads, writes } => {
                daemon.keep_folder(id, shown.ok_or(Code::BadRecord)?, (reads, writes))
            }
            SocketRequest::Confine => daemon.confine(id),
        }
    }

    fn end(&self, daemon: &mut Daemon, session: ObjectId) {
        daemon.end_sockets(session);
        daemon.services.socket.forget(session);
    }

    fn revoke(&self, daemon: &mut Daemon, sessions: &[ObjectId]) -> usize {
        sessions.iter().filter(|session| daemon.end_sockets(**session)).count()
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        let owner = daemon.own_uid;
        let sockets = &mut daemon.services.socket;
        sockets.set_limits(&shares::sockets(config), owner);
        sockets.folders.set_shares(shares::confined_folders(config));
        if let Some(server) = &mut sockets.server {
            server.quota.set_shares(shares::socket_sessions(config));
        }
        daemon.tell_socket_rules();
    }

    fn quotas<'a>(&self, daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        let sockets = &daemon.services.socket;
        let mut quotas = vec![(Thing::ConfinedNames, &sockets.folders)];
        quotas.extend(sockets.server.iter().map(|it| (Thing::SocketSessions, &it.quota)));
        quotas
    }

    fn status(&self, daemon: &Daemon, viewer: Viewer, told: &mut Told) {
        told.insert("sockets".into(), daemon.sockets_json(viewer));
    }

    fn explain(&self, daemon: &Daemon, sessions: &[ObjectId], told: &mut Told) {
        let each = sessions.iter().filter_map(|session| daemon.socket_session_json(*session));
        told.insert("sockets".into(), each.collect());
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        daemon.socket_gauges()
    }

    fn metrics(&self, daemon: &Daemon, registry: &mut Registry) {
        daemon.add_sockets(registry);
    }
}
