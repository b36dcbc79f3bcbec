//! The store and its areas as people see them.

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{Spill, StoreInfo, Way};
use heliostat_backend_block::{Costs, Driven};
use heliostat_service_store::AreaView;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::{json, Value};

use crate::daemon::{Daemon, Viewer};
use crate::state::store::StoreLoops;

/// Areas named in a status, and handles in an explanation: a text costs everybody the time that it
/// takes. `heliostat area list` names all of them.
const LISTED_MAX: usize = 128;
/// Why a handle on a namespace is not direct whose program is not privileged.
const PRIVILEGED: &str =
    "before Linux 6.2 the kernel takes a namespace's commands from privileged programs only";
/// Operations that the loops carry out.
const KINDS: [OpKind; 6] = [
    OpKind::Read,
    OpKind::Write,
    OpKind::Fsync,
    OpKind::WriteDurable,
    OpKind::Zero,
    OpKind::Discard,
];

impl StoreLoops {
    /// How many operations of each kind the loops have ended.
    fn counted(&self) -> Vec<(&'static str, u64)> {
        let each = || self.loops.iter().flat_map(|loops| loops.each());
        let count = |kind| each().map(|it| it.counts.operations_of(kind)).sum();
        KINDS.into_iter().map(|kind| (kind.name(), count(kind))).collect()
    }
}

impl Daemon {
    /// The whole of it, for status.
    pub(super) fn store_json(&self, viewer: Viewer) -> Value {
        let store = &self.services.store;
        let info = self.store_info();
        let mut told = info_json(&info);
        let Some(members) = told.as_object_mut() else { return told };
        let loops = store.loops.as_ref();
        members.insert("sessions".into(), json!(loops.map_or(0, |loops| loops.sessions.len())));
        let counted = loops
            .map(|loops| loops.counted().into_iter().collect::<std::collections::BTreeMap<_, _>>());
        members.insert("operations".into(), json!(counted));
        let Some(open) = store.open() else { return told };
        let driven = open.facts.driven;
        members.insert("driven".into(), driven_json(driven));
        members.insert("handles".into(), json!(open.areas.handle_count().0));
        members.insert("failed".into(), json!(open.failed));
        members.insert("costs_us".into(), open.facts.costs.map_or(Value::Null, costs_json));
        let areas = open.areas.list(0, "", |uid| viewer.sees(uid)).take(LISTED_MAX);
        members.insert("listed".into(), areas.map(|area| area_json(&area)).collect());
        told
    }

    /// What a session has.
    pub(super) fn store_held_json(&self, session: ObjectId) -> Value {
        let held = self.services.store.open().map(|open| open.areas.holding(session));
        let held = held.unwrap_or_default();
        json!({ "handles": held.handles, "direct": held.direct })
    }

    /// By which way a session reaches each of its areas, and why; nothing where it has none.
    pub(super) fn store_path_json(&self, session: ObjectId) -> Option<Value> {
        let store = &self.services.store;
        let open = store.open()?;
        let each: Vec<Value> = open
            .areas
            .held_by(session)
            .take(LISTED_MAX)
            .filter_map(|held| {
                let view = open.areas.view(held.area)?;
                let (way, why) = match held.way {
                    Way::Direct => ("direct", "the session is trusted with the device"),
                    Way::Emulated(Spill::NotOpened) if open.facts.driven.needs_privilege() => {
                        ("emulated", PRIVILEGED)
                    }
                    Way::Emulated(why) => ("emulated", why.text()),
                };
                let (name, rights) = (view.key.name.to_string(), held.rights.to_string());
                Some(json!({ "name": name, "rights": rights, "way": way, "why": why,
                    "alone": held.alone }))
            })
            .collect();
        if each.is_empty() {
            return None;
        }
        let served = store.loops.as_ref().and_then(|loops| loops.sessions.get(&session));
        Some(json!({
            "session": session.to_string(),
            "handles": open.areas.holding(session).handles,
            "loop": served.map(|served| served.loop_number),
            "store": open.place,
            "driven": driven_json(open.facts.driven),
            "areas": each,
        }))
    }

    /// What is there now.
    pub(super) fn store_gauges(&self) -> Vec<(&'static str, &'static str, u64)> {
        let store = &self.services.store;
        let info = self.store_info();
        let handles = store.open().map_or(0, |open| open.areas.handle_count().0);
        let sessions = store.loops.as_ref().map_or(0, |loops| loops.sessions.len());
        vec![
            ("store_areas", "Areas of the store", info.areas.into()),
            ("store_free_bytes", "Bytes of the store that areas may have", info.free_bytes),
            ("store_zeroing_bytes", "Bytes of the store to be zeroed", info.zeroing_bytes),
            ("store_changes", "Changes of the store so far", info.sequence),
            ("store_handles", "Handles on areas", handles as u64),
            ("store_direct_handles", "Handles on areas that are direct", info.direct.into()),
            ("store_sessions", "Sessions whose area operations are delegated", sessions as u64),
        ]
    }

    /// What the loops have done.
    pub(super) fn add_store(&self, registry: &mut Registry) {
        let Some(loops) = &self.services.store.loops else { return };
        for (name, count) in loops.counted() {
            let counter: Counter = Counter::default();
            counter.inc_by(count);
            let help = "Delegated operations of this kind on areas";
            registry.register(format!("store_operations_{name}"), help, counter);
        }
    }
}

/// Which way the device is driven, and why that one.
fn driven_json(driven: Driven) -> Value {
    json!({ "by": driven.word(), "text": driven.by(), "why": driven.why() })
}

fn info_json(info: &StoreInfo) -> Value {
    let identity: String = info.identity.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "state": info.state.text(),
        "where": info.text,
        "identity": identity,
        "durable_by": info.durable_by.word(),
        "past_page_cache": info.is_past_cache,
        "bytes": info.bytes,
        "data_bytes": info.data_bytes,
        "free_bytes": info.free_bytes,
        "zeroing_bytes": info.zeroing_bytes,
        "discards": info.does_discard,
        "discarded_bytes": info.discarded_bytes,
        "forced_unit_access": info.is_forced,
        "changes": info.sequence,
        "areas": info.areas,
        "areas_max": info.areas_max,
        "grain_bytes": info.grain_bytes,
        "sector_bytes": info.sector_bytes,
        "direct": info.direct,
        "direct_max": info.direct_max,
    })
}

fn area_json(area: &AreaView) -> Value {
    json!({
        "id": area.area.to_string(),
        "name": area.key.name.to_string(),
        "uid": area.key.uid,
        "generation": area.generation,
        "bytes": area.bytes,
        "kind": area.kind.word(),
        "others": area.others.to_string(),
        "bytes_per_second": area.rate.per_second,
        "handles": area.handles,
        "direct": area.direct,
        "changing": area.is_changing,
        "alone": area.alone.map(|session| session.to_string()),
    })
}

/// What durable writes were chosen by, in microseconds.
fn costs_json(costs: Costs) -> Value {
    let us = |time: std::time::Duration| time.as_micros() as u64;
    json!({
        "write": us(costs.write),
        "dsync": us(costs.dsync),
        "flush": us(costs.flush),
        "together": costs.together,
        "together_dsync": us(costs.together_dsync),
        "together_flush": us(costs.together_flush),
    })
}
