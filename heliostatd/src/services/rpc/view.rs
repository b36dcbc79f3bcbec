//! Remote procedure calls as people see them.

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::reply::NO_MORE;
use heliostat_base::clock::monotonic_ns;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::{json, Value};

use crate::daemon::{Daemon, Viewer};
use crate::state::rpc::RpcLoop;

/// Functions named in a status: it costs everybody the time that it takes. `heliostat rpc list` names
/// all of them.
const LISTED_MAX: usize = 128;
/// Operations that the loop carries out.
const KINDS: [OpKind; 4] = [OpKind::Call, OpKind::Send, OpKind::Receive, OpKind::Reply];

impl RpcLoop {
    /// How many operations of each kind the loop has ended.
    fn counted(&self) -> Vec<(&'static str, u64)> {
        let count = |kind| self.loops.each().iter().map(|it| it.counts.operations_of(kind)).sum();
        KINDS.into_iter().map(|kind| (kind.name(), count(kind))).collect()
    }
}

impl Daemon {
    /// The whole of it, for status.
    pub(super) fn rpc_json(&self, viewer: Viewer) -> Value {
        let rpc = &self.services.rpc;
        let (mut functions, mut from) = (Vec::new(), 0);
        let now = monotonic_ns();
        while from != NO_MORE && functions.len() < LISTED_MAX {
            let (some, next) = rpc.grants.list(from, "", now, |uid| viewer.sees(uid));
            functions.extend(some);
            from = next;
        }
        let each = functions.into_iter().take(LISTED_MAX).map(|function| {
            json!({
                "id": function.function.to_string(),
                "name": function.name.to_string(),
                "uid": function.user,
                "servers": function.servers,
                "callers": function.callers,
                "request_bytes": function.request_bytes,
                "reply_bytes": function.reply_bytes,
                "others": function.others,
                "age_s": function.age_s,
            })
        });
        let listed: Vec<_> = each.collect();
        json!({
            "functions": rpc.grants.count(),
            "sessions": rpc.server.as_ref().map_or(0, |server| server.sessions.len()),
            "operations": rpc.server.as_ref().map(|server| {
                server.counted().into_iter().collect::<std::collections::BTreeMap<_, _>>()
            }),
            "remote_functions": rpc.across.remotes.count(),
            "remote_users": rpc.across.users.count(),
            "functions_to_give_back": rpc.across.unreturned.len(),
            "functions_given_up": rpc.across.unreturned.forgotten,
            "listed": listed,
        })
    }

    /// What a session has.
    pub(super) fn rpc_held_json(&self, session: ObjectId) -> Value {
        let held = self.services.rpc.grants.holding(session);
        json!({ "serves": held.serves, "calls": held.calls })
    }

    /// By which path a session's calls go, and why; nothing where it has none.
    pub(super) fn rpc_path_json(&self, session: ObjectId) -> Option<Value> {
        let rpc = &self.services.rpc;
        let held = rpc.grants.holding(session);
        let there = rpc.across.remotes.held(session);
        if held.serves + held.calls + there == 0 {
            return None;
        }
        let is_served = rpc.server.as_ref().is_some_and(|it| it.sessions.contains_key(&session));
        let why = match is_served {
            true => "calls go by the server loop, which matches them with who serves",
            false => "the session has not called or received yet",
        };
        Some(json!({
            "session": session.to_string(),
            "serves": held.serves,
            "calls": held.calls,
            "calls_on_other_nodes": there,
            "why": why,
        }))
    }

    /// What is there now.
    pub(super) fn rpc_gauges(&self) -> Vec<(&'static str, &'static str, u64)> {
        let rpc = &self.services.rpc;
        let sessions = rpc.server.as_ref().map_or(0, |server| server.sessions.len());
        vec![
            ("rpc_functions", "Functions that are served", rpc.grants.count() as u64),
            ("rpc_sessions", "Sessions that call or serve functions", sessions as u64),
            (
                "rpc_remote_functions",
                "Functions of other nodes that sessions have found",
                rpc.across.remotes.count() as u64,
            ),
            (
                "rpc_remote_users",
                "Users of other nodes that have found functions here",
                rpc.across.users.count() as u64,
            ),
        ]
    }

    /// What the loop has done.
    pub(super) fn add_rpc(&self, registry: &mut Registry) {
        let Some(server) = &self.services.rpc.server else { return };
        for (name, count) in server.counted() {
            let counter: Counter = Counter::default();
            counter.inc_by(count);
            let help = "Operations of this kind on functions that ended";
            registry.register(format!("rpc_operations_{name}"), help, counter);
        }
    }
}
