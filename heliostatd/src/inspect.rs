//! What people can see of the control plane: its state as a whole. One process: `explain`.

use heliostat_abi::code::{Native, Unmapped};
use heliostat_abi::limits::{ATTACHMENTS_MAX, CHANNELS_MAX, PORTS_MAX, REGIONS_MAX, SESSIONS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::report::{Path, COUNTER_NAMES};
use heliostat_abi::snapshot::memory::CONSUMERS_MAX;
use heliostat_base::clock::monotonic_ns;
use serde_json::{json, Map, Value};

use crate::answer::{text_answer, Answer};
use crate::daemon::{Daemon, Viewer};
use crate::memory::Report;
use crate::peers::PLACES_MAX;
use crate::refused::Refused;
use crate::shares;
use crate::state::connection::{Connection, Session};

impl Daemon {
    /// The whole state as JSON; other users' sessions are shown to the owner and root only.
    pub(crate) fn status(&self, asker: ObjectId) -> Result<Answer, Refused> {
        let sees_all = self.is_owner(asker);
        let uid = self.connections.get(asker).map(|connection| connection.peer.subject.uid);
        let visible = self
            .connections
            .iter()
            .filter(|(_, connection)| sees_all || Some(connection.peer.subject.uid) == uid);
        let mut status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": heliostat_abi::VERSION,
            "pid": std::process::id(),
            "uid": self.own_uid,
            "boot": self.boot,
            "uptime_s": monotonic_ns().saturating_sub(self.started_ns) / 1_000_000_000,
            "denials": self.denials.to_json(sees_all, uid),
            "limits": self.limits_json(),
            "quotas": self.quotas_json(sees_all, uid),
            "config": self.parts.config_path,
            "rules": self.parts.config.rules.0.len(),
        });
        let viewer = Viewer { sees_all, uid };
        if let Some(told) = status.as_object_mut() {
            self.parts.table.iter().for_each(|service| service.status(self, viewer, told));
        }
        text_answer(&with_sessions(&status, self.sessions_json(visible)))
    }

    /// What each session is and holds, one at a time.
    fn sessions_json<'a>(
        &'a self,
        connections: impl Iterator<Item = (ObjectId, &'a Connection)> + 'a,
    ) -> impl Iterator<Item = Value> + 'a {
        let mut places_left = PLACES_MAX;
        connections.filter_map(move |(id, connection)| {
            let session = connection.session.as_ref()?;
            let mut told = self.session_json(id, connection, session);
            told["connections"] = connections_json(&session.report, &mut places_left);
            Some(told)
        })
    }

    fn session_json(&self, id: ObjectId, connection: &Connection, session: &Session) -> Value {
        let mut told = json!({
            "id": id.to_string(),
            "pid": connection.pid(),
            "restricted_by": connection.is_restricted().then_some(connection.peer.pid),
            "uid": connection.peer.subject.uid,
            "program": session.program,
            "netns": session.namespace,
            "native_as_a_whole": session.report.whole().map(|reason| format!("{reason:?}")),
        });
        // Moved in: the macro copies what it is given.
        let report = &session.report;
        told["counters"] = counters_json(&report.counters());
        told["reasons"] = reasons_json(Native::ALL, &report.reasons());
        told["file_reasons"] = reasons_json(Unmapped::ALL, &report.file_reasons());
        if let Some(told) = told.as_object_mut() {
            self.parts.table.iter().for_each(|service| service.session_status(self, id, told));
        }
        told
    }

    fn limits_json(&self) -> Value {
        let (limits, channel) = (&self.parts.config.limits, &self.parts.config.channel);
        let files = shares::files(&self.parts.config);
        json!({
            "leases": files.leases.all,
            "leases_per_session": files.leases_per_session,
            "sessions": SESSIONS_MAX,
            "sessions_per_user": limits.sessions_per_user,
            "ports": PORTS_MAX,
            "ports_per_session": limits.ports_per_session,
            "regions": REGIONS_MAX,
            "regions_per_session": limits.regions_per_session,
            "attachments": ATTACHMENTS_MAX,
            "attachments_per_session": limits.attachments_per_session,
            "consumers_per_region": CONSUMERS_MAX,
            "channels": CHANNELS_MAX,
            "channels_per_session": limits.channels_per_session,
            "channels_per_pair": limits.channels_per_pair,
            "shared_bytes_per_session": limits.shared_bytes_per_session,
            "shared_bytes_per_user": limits.shared_bytes_per_user,
            "connects_per_second": limits.connects.per_second,
            "connects_burst": limits.connects.burst,
            "ports_per_user": limits.ports_per_user,
            "regions_per_user": limits.regions_per_user,
            "attachments_per_user": limits.attachments_per_user,
            "leases_per_user": limits.leases_per_user,
            "channels_per_user": limits.channels_per_user,
            "unread_descriptors_per_user": limits.unread_descriptors_per_user,
            "unread_bytes_per_user": limits.unread_bytes_per_user,
            "sealed_percent": limits.sealed_percent,
            "reserve_percent": limits.reserve_percent,
            "channel_slots": channel.slots,
            "channel_ring_bytes": channel.ring_bytes,
        })
    }
}

/// The text of the state, an object that has members, and of its sessions: each is written before the
/// next is made, because thousands in one tree take longer to build and to free than to write.
fn with_sessions(status: &Value, sessions: impl Iterator<Item = Value>) -> String {
    let mut text = status.to_string();
    text.pop();
    text.push_str(",\"sessions\":[");
    for (nth, session) in sessions.enumerate() {
        if nth > 0 {
            text.push(',');
        }
        text.push_str(&session.to_string());
    }
    text.push_str("]}");
    text
}

/// How many connections the report lists now, as long as there are places left to look at.
fn connections_json(report: &Report, places_left: &mut usize) -> Value {
    let Some(left) = places_left.checked_sub(report.places()) else { return Value::Null };
    *places_left = left;
    let (mut direct, mut native) = (0, 0);
    for entry in report.entries() {
        match entry.path {
            Path::Direct | Path::Delegated => direct += 1,
            Path::Native(_) => native += 1,
        }
    }
    json!({ "direct": direct, "native": native })
}

pub(crate) fn counters_json(counters: &[u64; COUNTER_NAMES.len()]) -> Value {
    let named = COUNTER_NAMES.iter().zip(counters);
    Value::Object(
        named.map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<Map<_, _>>(),
    )
}

/// The reasons that occurred.
pub(crate) fn reasons_json<R: std::fmt::Debug>(all: &[R], reasons: &[u64]) -> Value {
    let occurred = all.iter().zip(reasons).filter(|(_, count)| **count > 0);
    Value::Object(
        occurred
            .map(|(reason, count)| (format!("{reason:?}"), json!(count)))
            .collect::<Map<_, _>>(),
    )
}
