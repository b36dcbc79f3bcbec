//! What people can see: the state of the control plane, and why one process's connections
//! and reads of files travel as they do. Reports are foreign bytes; they are shown and decide nothing.

use std::rc::Rc;

use heliostat_abi::code::{Code, Native, Unmapped};
use heliostat_abi::limits::{ATTACHMENTS_MAX, CHANNELS_MAX, PORTS_MAX, REGIONS_MAX, SESSIONS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_abi::record::Reply;
use heliostat_abi::report::{Entry, Path, COUNTER_NAMES};
use heliostat_abi::snapshot::CONSUMERS_MAX;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::name::tcp_name;
use serde_json::{json, Map, Value};
use tracing::warn;

use crate::connect::{Connection, Session};
use crate::daemon::{file_limits, Daemon};
use crate::memory;
use crate::metrics::add;
use crate::serve::{Answer, Refused};

impl Daemon {
    /// The whole state as JSON; other users' sessions are shown to the owner and root only.
    pub(crate) fn status(&self, asker: ObjectId) -> Result<Answer, Refused> {
        let sees_all = self.is_owner(asker);
        let uid = self.connections.get(asker).map(|connection| connection.peer.subject.uid);
        let visible = self
            .connections
            .iter()
            .filter(|(_, connection)| sees_all || Some(connection.peer.subject.uid) == uid);
        let sessions: Vec<_> = visible
            .filter_map(|(id, connection)| {
                connection
                    .session
                    .as_ref()
                    .map(|session| self.session_json(id, connection, session))
            })
            .collect();
        let ports: Vec<_> = self
            .net
            .ports()
            .filter(|port| sees_all || Some(port.owner_uid) == uid)
            .map(|port| {
                json!({
                    "name": tcp_name(port.endpoint.address),
                    "address": port.endpoint.address.to_string(),
                    "id": port.id.to_string(),
                    "namespace_cookie": port.endpoint.namespace.0,
                    "uid": port.owner_uid,
                    "sessions": port.sessions.iter().map(ObjectId::to_string).collect::<Vec<_>>(),
                    "channels": port.channels,
                })
            })
            .collect();
        let status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": heliostat_abi::VERSION,
            "pid": std::process::id(),
            "uid": self.own_uid,
            "boot": self.boot,
            "uptime_s": monotonic_ns().saturating_sub(self.started_ns) / 1_000_000_000,
            "sessions": sessions,
            "ports": ports,
            "channels": self.net.channel_count(),
            "regions": self.regions_json(sees_all, uid),
            "leases": self.leases_json(sees_all, uid),
            "delegated": self.delegated_json(),
            "limits": self.limits_json(),
            "config": self.parts.config_path,
            "rules": self.parts.config.rules.0.len(),
        });
        text_answer(&status.to_string())
    }

    fn session_json(&self, id: ObjectId, connection: &Connection, session: &Session) -> Value {
        let holding = self.net.holding(id);
        let snapshots = self.snapshot.holding(id);
        json!({
            "id": id.to_string(),
            "pid": connection.pid(),
            "restricted_by": connection.is_restricted().then_some(connection.peer.pid),
            "uid": connection.peer.subject.uid,
            "program": session.program,
            "netns": session.namespace,
            "ports": holding.ports,
            "channels": holding.channels,
            "shared_bytes": holding.bytes,
            "regions": snapshots.regions,
            "attachments": snapshots.attachments,
            "leases": self.file.holding(id),
            "revoked": holding.revoked,
            "counters": counters_json(&session.report.counters()),
            "reasons": reasons_json(Native::ALL, &session.report.reasons()),
            "file_reasons": reasons_json(Unmapped::ALL, &session.report.file_reasons()),
        })
    }

    fn limits_json(&self) -> Value {
        let (limits, channel) = (&self.parts.config.limits, &self.parts.config.channel);
        let files = file_limits(&self.parts.config);
        json!({
            "leases": files.leases,
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
            "channel_slots": channel.slots,
            "channel_ring_bytes": channel.ring_bytes,
        })
    }

    /// The connections of a process as its stub reports them. Its own user, the owner of the
    /// control plane and root may ask.
    pub(crate) fn explain(&self, asker: ObjectId, pid: u32) -> Result<Answer, Refused> {
        let uid = self.connections.get(asker).map(|connection| connection.peer.subject.uid);
        let (mut connections, mut program) = (Vec::new(), String::new());
        let mut counters = [0u64; COUNTER_NAMES.len()];
        let mut reasons = [0u64; Native::ALL.len()];
        let (mut files, mut of_files) = (Vec::new(), [0u64; Unmapped::ALL.len()]);
        let (mut delegated, mut loops) = (Vec::new(), Vec::new());
        let mut found = self.sessions_of(pid);
        if found.is_empty() {
            return Err(Code::NotFound.into());
        }
        // Another user may have said of its own session that it is this process's.
        let user_of = |id: &ObjectId| self.connections.get(*id).map(|it| it.peer.subject.uid);
        found.retain(|id| self.is_owner(asker) || user_of(id) == uid);
        if found.is_empty() {
            return Err(Code::Denied.into());
        }
        for id in found {
            let Some(connection) = self.connections.get(id) else { continue };
            let Some(session) = &connection.session else { continue };
            program.clone_from(&session.program);
            connections.extend(session.report.entries().iter().map(entry_json));
            add(&mut counters, &session.report.counters());
            add(&mut reasons, &session.report.reasons());
            files.extend(self.leased_paths(id));
            delegated.extend(self.delegated_files(id));
            loops.extend(self.delegated_loop(id));
            add(&mut of_files, &session.report.file_reasons());
        }
        let explained = json!({
            "pid": pid,
            "program": program,
            "connections": connections,
            "counters": counters_json(&counters),
            "reasons": reasons_json(Native::ALL, &reasons),
            "files": files,
            "file_reasons": reasons_json(Unmapped::ALL, &of_files),
            "delegated": delegated,
            "delegated_loops": loops,
            "delegated_rule": Self::delegated_rule(),
        });
        text_answer(&explained.to_string())
    }
}

fn entry_json(entry: &Entry) -> Value {
    let (path, reason) = match entry.path {
        Path::Direct => ("direct", Native::None),
        Path::Native(reason) => ("native", reason),
    };
    let text = if path == "direct" { "" } else { reason.text() };
    json!({
        "fd": entry.fd,
        "local": entry.local.to_string(),
        "peer": entry.peer.to_string(),
        "path": path,
        "reason": format!("{reason:?}"),
        "reason_text": text,
        "accepted": entry.accepted,
        "received": entry.received,
        "sent": entry.sent,
    })
}

fn counters_json(counters: &[u64; COUNTER_NAMES.len()]) -> Value {
    let named = COUNTER_NAMES.iter().zip(counters);
    Value::Object(
        named.map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<Map<_, _>>(),
    )
}

/// The reasons that occurred.
fn reasons_json<R: std::fmt::Debug>(all: &[R], reasons: &[u64]) -> Value {
    let occurred = all.iter().zip(reasons).filter(|(_, count)| **count > 0);
    Value::Object(
        occurred
            .map(|(reason, count)| (format!("{reason:?}"), json!(count)))
            .collect::<Map<_, _>>(),
    )
}

/// A text as an answer: [memory file].
pub(crate) fn text_answer(text: &str) -> Result<Answer, Refused> {
    let fd = memory::text(text).map_err(|error| {
        warn!(%error, "no memory for a text");
        Code::Internal
    })?;
    Ok(Answer { reply: Reply::Text { bytes: text.len() as u64 }, fds: vec![Rc::new(fd)] })
}
