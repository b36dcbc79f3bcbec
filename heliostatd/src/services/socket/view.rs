//! Delegated sockets as people see them.

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::name::ObjectId;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::{json, Value};

use crate::daemon::{Daemon, Viewer};
use crate::state::socket::SocketLoops;

/// Listeners named in a status: it costs everybody the time that it takes.
const LISTED_MAX: usize = 128;
/// Why a restricted session has no sockets of a loop's.
const SEALED: &str = "sealed: its sockets are its own, which the supervisor connects and binds as the \
     policy says; socket operations are delegated by co-processors only (heliostat coprocessor run)";
/// Operations that a loop of sockets carries out.
const KINDS: [OpKind; 9] = [
    OpKind::Connect,
    OpKind::Listen,
    OpKind::Accept,
    OpKind::Read,
    OpKind::Write,
    OpKind::Poll,
    OpKind::Shutdown,
    OpKind::Address,
    OpKind::Close,
];

impl SocketLoops {
    /// How many operations of each kind the loops have ended.
    fn counted(&self) -> Vec<(&'static str, u64)> {
        let count = |kind| self.loops.each().iter().map(|it| it.counts.operations_of(kind)).sum();
        KINDS.into_iter().map(|kind| (kind.name(), count(kind))).collect()
    }

    fn listeners_json(&self) -> Vec<Value> {
        let each = self.listeners.each().into_iter().take(LISTED_MAX).map(|listener| {
            let members = listener.members.into_iter().map(|(session, open, waiting)| {
                json!({ "session": session.to_string(), "open": open, "accepts": waiting })
            });
            let members: Vec<_> = members.collect();
            json!({
                "address": listener.address.to_string(),
                "rule": listener.rule.name(),
                "kept": listener.kept,
                "members": members,
            })
        });
        each.collect()
    }
}

impl Daemon {
    /// The whole of it, for status.
    pub(super) fn sockets_json(&self, viewer: Viewer) -> Value {
        let sockets = &self.services.socket;
        let (count, limit) = sockets.count();
        let server = sockets.server.as_ref();
        let shared = server.filter(|_| viewer.sees_all).map(SocketLoops::listeners_json);
        json!({
            "sockets": count,
            "sockets_max": limit,
            "sessions": server.map_or(0, |server| server.sessions.len()),
            "confined": sockets.confined.values().filter(|list| list.is_closed()).count(),
            "operations": server.map(|server| {
                server.counted().into_iter().collect::<std::collections::BTreeMap<_, _>>()
            }),
            "shared_listeners": shared,
        })
    }

    /// By which path a session's socket operations go; nothing where it has none. Of a sealed program
    /// why it can have none, which is refused before anybody looks at what it asks for.
    pub(super) fn socket_session_json(&self, session: ObjectId) -> Option<Value> {
        if self.is_restricted(session) && self.connections.get(session).is_some() {
            return Some(json!({ "session": session.to_string(), "why": SEALED }));
        }
        let sockets = &self.services.socket;
        let served = sockets.server.as_ref()?.sessions.get(&session)?;
        let is_confined = sockets.confined.get(&session).is_some_and(|list| list.is_closed());
        let why = match is_confined {
            true => "a server loop has the sockets, and connects and listens within what the session was confined to",
            false => "a server loop has the sockets, and connects and listens as the rules allow",
        };
        Some(json!({
            "session": session.to_string(),
            "loop": served.loop_number,
            "confined": is_confined,
            "why": why,
        }))
    }

    /// What is there now.
    pub(super) fn socket_gauges(&self) -> Vec<(&'static str, &'static str, u64)> {
        let sockets = &self.services.socket;
        let sessions = sockets.server.as_ref().map_or(0, |server| server.sessions.len());
        vec![
            ("delegated_sockets", "Sockets of delegated operations", sockets.count().0),
            ("socket_sessions", "Sessions whose socket operations are delegated", sessions as u64),
        ]
    }

    /// What the loops have done.
    pub(super) fn add_sockets(&self, registry: &mut Registry) {
        let Some(server) = &self.services.socket.server else { return };
        for (name, count) in server.counted() {
            let counter: Counter = Counter::default();
            counter.inc_by(count);
            let help = "Operations of this kind on sockets that ended";
            registry.register(format!("socket_operations_{name}"), help, counter);
        }
    }
}
