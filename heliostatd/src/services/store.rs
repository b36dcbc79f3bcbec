//! What sessions ask of the store service: areas, handles on them, and the store itself.
//!
//! ```text
//! Attach, [store] path --> the store's thread opens it --> areas are there
//! Create, Resize, ... --> who may (rules, the owner's word) --> order to the thread --> late answer
//! Open --> direct: [the device], or emulated; Session [window] -> a server loop carries operations out
//! ```
//! `heliostat_service_store` decides; here the kernel's facts come in and the effects go out. Nothing
//! here waits for the device, but for the first open of a store that the configuration names.

mod attach;
mod late;
mod no;
mod open;
mod requests;
mod served;
mod settle;
mod view;

use std::io;

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Asker, Row};
use heliostat_abi::session::restriction::Services;
use heliostat_abi::store::request::{number, SERVICE};
use heliostat_abi::store::StoreRequest;
use heliostat_control::config::Config;
use heliostat_service_grant::Quota;
use prometheus_client::registry::Registry;

use super::own_request;
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, Service, Told, Viewer};
use crate::poll::Source;
use crate::refused::Refused;
use crate::shares;

/// Areas of the store, in the table of services.
pub struct StoredAreas;

/// For restricted sessions too, which are served areas that their policy names.
const fn row(name: &'static str, brings: usize, answers: u64) -> Row {
    let asker = Asker::With(Services::AREAS);
    Row { name, brings: brings..=brings, keeps: brings as u64, answers, asker }
}

/// For who sees and may do what is about the store as a whole.
const fn whole(name: &'static str, brings: usize) -> Row {
    Row { asker: Asker::Unrestricted, ..row(name, brings, 0) }
}

const REQUESTS: &[(u16, Row)] = &[
    (number::CREATE, row("store_create", 0, 1)),
    (number::OPEN, row("store_open", 0, 1)),
    (number::CLOSE, row("store_close", 0, 0)),
    (number::RESIZE, row("store_resize", 0, 0)),
    (number::APPOINT, row("store_appoint", 0, 0)),
    (number::DELETE, row("store_delete", 0, 0)),
    (number::SET_RATE, whole("store_set_rate", 0)),
    (number::LIST, whole("store_list", 0)),
    (number::PIECES, row("store_pieces", 0, 0)),
    (number::SESSION, row("store_session", 1, 1)),
    (number::END_SESSION, row("store_end_session", 0, 0)),
    (number::STORE, whole("store_store", 0)),
    (number::ATTACH, whole("store_attach", 1)),
    (number::DETACH, whole("store_detach", 0)),
    (number::OUTCOME, row("store_outcome", 0, 1)),
];

impl Service for StoredAreas {
    fn number(&self) -> u16 {
        SERVICE
    }

    fn own_requests(&self) -> &'static [(u16, Row)] {
        REQUESTS
    }

    fn begin(&self, daemon: &mut Daemon) -> io::Result<()> {
        daemon.poll.watch(&daemon.services.store.bell, Source::Store)?;
        daemon.open_configured_store();
        Ok(())
    }

    fn answer(&self, daemon: &mut Daemon, mut asked: Asked) -> Result<Answer, Refused> {
        let request = own_request(&asked, "the store", StoreRequest::decode)?;
        let shown = asked.fds.pop();
        let answer = daemon.answer_store(asked.session, request, shown);
        daemon.tell_no(answer)
    }

    fn end(&self, daemon: &mut Daemon, session: ObjectId) {
        daemon.end_store_session(session);
    }

    fn revoke(&self, daemon: &mut Daemon, sessions: &[ObjectId]) -> usize {
        daemon.revoke_store(sessions)
    }

    fn pass_time(&self, daemon: &mut Daemon, now_ns: u64) {
        daemon.end_late_changes(now_ns);
    }

    fn next_deadline_ns(&self, daemon: &mut Daemon) -> Option<u64> {
        daemon.services.store.next_ns()
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        let store = &mut daemon.services.store;
        if let Some(open) = store.open_mut() {
            open.areas.set_limits(shares::store(config));
        }
        if let Some(loops) = &mut store.loops {
            loops.quota.set_shares(shares::store_sessions(config));
        }
    }

    fn quotas<'a>(&self, daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        let store = &daemon.services.store;
        let loops = store.loops.iter().map(|loops| (Thing::AreaSessions, &loops.quota));
        let areas = store.open().map(|open| open.areas.quotas()).unwrap_or_default();
        loops.chain(areas).collect()
    }

    fn status(&self, daemon: &Daemon, viewer: Viewer, told: &mut Told) {
        told.insert("store".into(), daemon.store_json(viewer));
    }

    fn session_status(&self, daemon: &Daemon, session: ObjectId, told: &mut Told) {
        told.insert("store".into(), daemon.store_held_json(session));
    }

    fn explain(&self, daemon: &Daemon, sessions: &[ObjectId], told: &mut Told) {
        let each = sessions.iter().filter_map(|session| daemon.store_path_json(*session));
        told.insert("store".into(), each.collect());
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        daemon.store_gauges()
    }

    fn metrics(&self, daemon: &Daemon, registry: &mut Registry) {
        daemon.add_store(registry);
    }
}
