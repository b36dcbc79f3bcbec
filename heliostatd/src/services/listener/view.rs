//! Shared listeners, for people.

use heliostat_abi::name::ObjectId;
use heliostat_server_listener::{ListenerState, WorkerState};
use heliostat_service_listener::{ListenerView, Standing, WorkerView};
use serde_json::{json, Value};

use crate::daemon::{Daemon, Viewer};
use crate::services::listed;

impl Daemon {
    /// Every listener that the viewer may see.
    pub(crate) fn listeners_json(&self, viewer: Viewer) -> Value {
        let listeners = &self.services.listener;
        let views = listeners.grants.views().filter(|view| viewer.sees(view.owner_uid));
        let each = views.map(|view| self.listener_json(&view, &listeners.view(view.id)));
        Value::Array(each.collect())
    }

    /// The listeners that a process works for: what it gets there, and what the others get.
    pub(crate) fn worked_for_json(&self, sessions: &[ObjectId]) -> Value {
        let is_its = |worker: &WorkerView| worker.sessions.iter().any(|id| sessions.contains(id));
        let listeners = &self.services.listener;
        let views = listeners.grants.views().filter(|view| view.workers.iter().any(is_its));
        let each = views.map(|view| {
            let mut listener = self.listener_json(&view, &listeners.view(view.id));
            let told = listener["workers"].as_array_mut().into_iter().flatten();
            told.zip(&view.workers).for_each(|(told, it)| told["is_its"] = json!(is_its(it)));
            listener
        });
        each.collect()
    }

    fn listener_json(&self, view: &ListenerView, state: &ListenerState) -> Value {
        let of = |worker: &WorkerView| state.workers.get(&worker.id).copied();
        let workers: Vec<Value> =
            view.workers.iter().map(|worker| self.worker_json(worker, of(worker))).collect();
        let counts = state.counts;
        json!({
            "address": view.endpoint.address.to_string(),
            "id": view.id.to_string(),
            "uid": view.owner_uid,
            "rule": view.rule.name(),
            "lasting": view.is_lasting,
            "accepting": state.is_open,
            "plugin": state.has_plugin,
            "held": state.held,
            "accepted": counts.accepted,
            "given": counts.given,
            "taken_back": counts.taken_back,
            "silent": counts.silent,
            "unanswered": counts.unanswered,
            "garbage": counts.garbage,
            "workers": workers,
        })
    }

    fn worker_json(&self, worker: &WorkerView, state: Option<WorkerState>) -> Value {
        let pids = worker.sessions.iter().filter_map(|id| Some(self.connections.get(*id)?.pid()));
        // What was just ordered the thread may not have told yet.
        let state = state.unwrap_or(WorkerState::JOINED);
        json!({
            "id": worker.id.to_string(),
            "place": worker.place,
            "pids": listed(pids),
            "processes": worker.sessions.len(),
            "state": word(state.standing),
            "connections": state.connections,
            "load": state.load,
            "given": state.given,
            "untaken": state.untaken,
            "passed_over": state.passed,
            "lies": state.lies,
            "believed": state.is_believed,
            "counted": state.is_audited,
        })
    }

    /// The workers that a session is.
    pub(crate) fn listener_workers_json(&self, session: ObjectId) -> Value {
        let workers = self.services.listener.grants.workers_of(session);
        workers.iter().map(ObjectId::to_string).collect()
    }
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Joined => "joined",
        Standing::Ready => "ready",
        Standing::Draining => "draining",
    }
}
