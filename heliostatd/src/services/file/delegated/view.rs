//! Delegated operations as people and metrics see them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heliostat_abi::file::delegated::{OpKind, Way, DIRECT_GRAIN};
use heliostat_abi::name::ObjectId;
use heliostat_server_file::{AHEAD_BLOCKS_MAX, BLOCK_BYTES, DIRECT_FROM, FOLLOW_NS, HEAD_BLOCKS};
use heliostat_server_loop::{Counts, LoopState};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::{json, Map, Value};

use super::devices::load_rule;
use crate::daemon::Daemon;
use crate::state::file::delegated::Delegated;

/// What all loops have counted, by name; the same names in status and metrics.
fn counted(
    loops: &[&Counts],
    blocks_filled: u64,
    (ahead, found): (u64, u64),
) -> Vec<(String, &'static str, u64)> {
    let sum = |counter: &dyn Fn(&Counts) -> &AtomicU64| {
        loops.iter().map(|counts| counter(counts).load(Relaxed)).sum::<u64>()
    };
    let mut all = Vec::new();
    for (at, kind) in OpKind::ALL.iter().enumerate() {
        let help = "Delegated operations of this kind that ended";
        all.push((format!("operations_{}", kind.name()), help, sum(&|it| &it.operations[at])));
    }
    for way in Way::SERVED.iter().skip(1) {
        let help = "Delegated transfers that took this way";
        all.push((
            format!("transfers_{}", way.name()),
            help,
            sum(&|it| &it.transfers[*way as usize]),
        ));
        let help = "Bytes of delegated transfers that took this way";
        all.push((format!("bytes_{}", way.name()), help, sum(&|it| &it.bytes[*way as usize])));
    }
    all.push((
        "failed".into(),
        "Delegated operations that ended with an error",
        sum(&|it| &it.failed),
    ));
    let help = "Records in submission rings that were no operations";
    all.push(("malformed".into(), help, sum(&|it| &it.malformed)));
    let help = "Blocks that were read into the cache";
    all.push(("blocks_filled".into(), help, blocks_filled));
    let help = "Blocks of these that were read ahead of a session that was to come to their file";
    all.push(("blocks_ahead".into(), help, ahead));
    let help = "Blocks that were read ahead so and were there when a session came";
    all.push(("blocks_ahead_found".into(), help, found));
    all.push(("sleeps".into(), "Times a server loop went to sleep", sum(&|it| &it.sleeps)));
    all
}

impl Delegated {
    fn counts(&self) -> Vec<&Counts> {
        self.loops.each().iter().map(|state| &*state.counts).collect()
    }

    fn counted(&self) -> Vec<(String, &'static str, u64)> {
        counted(&self.counts(), self.shared.blocks_filled(), self.shared.blocks_ahead())
    }

    /// Each loop: its core if it has one for itself, its sessions, and what it has done.
    fn loops_json(&self) -> Value {
        let each = self.loops.each().iter().enumerate().map(|(number, state)| {
            let LoopState { counts, core } = state;
            let sessions = self.sessions.values().filter(|held| held.loop_number == number).count();
            let ended: u64 = counts.operations.iter().map(|counter| counter.load(Relaxed)).sum();
            let sleeps = counts.sleeps.load(Relaxed);
            json!({
                "core": core, "sessions": sessions, "operations": ended, "sleeps": sleeps,
                "copying_percent": self.shared.copying(number),
            })
        });
        Value::Array(each.collect())
    }

    /// The loop that serves a session: its number and core; null where none does.
    fn loop_json(&self, id: ObjectId) -> Value {
        let Some(held) = self.sessions.get(&id) else { return Value::Null };
        let core = self.loops.each().get(held.loop_number).and_then(|state| state.core);
        json!({ "session": id.to_string(), "loop": held.loop_number, "core": core })
    }
}

impl Daemon {
    /// Which server loop a session has, for explain.
    pub(crate) fn delegated_loop(&self, id: ObjectId) -> Option<Value> {
        let found = self.services.file.delegated.as_ref()?.loop_json(id);
        (!found.is_null()).then_some(found)
    }

    /// For status; null while nobody has asked for a server loop.
    pub(crate) fn delegated_json(&self) -> Value {
        let Some(delegated) = &self.services.file.delegated else { return Value::Null };
        let each = delegated.counted().into_iter();
        let mut all: Map<String, Value> = each.map(|(name, _, it)| (name, json!(it))).collect();
        let kept = delegated.shared.blocks.kept();
        all.insert("sessions".into(), json!(delegated.sessions.len()));
        all.insert("loops".into(), delegated.loops_json());
        all.insert("requests".into(), json!(delegated.loops.by().name()));
        all.insert("cache_bytes".into(), json!(kept * BLOCK_BYTES));
        let limit = self.parts.config.delegated.cache_bytes;
        all.insert("cache_bytes_max".into(), json!(limit));
        all.insert("follow_bytes".into(), json!(delegated.shared.follow_bytes()));
        all.insert("devices".into(), delegated.devices_json());
        all.insert("rule".into(), Self::delegated_rule());
        Value::Object(all)
    }

    /// The thresholds by which a transfer's way is chosen.
    pub(crate) fn delegated_rule() -> Value {
        json!({
            "direct_from_bytes": DIRECT_FROM,
            "direct_grain_bytes": DIRECT_GRAIN,
            "block_bytes": BLOCK_BYTES,
            "ahead_blocks": AHEAD_BLOCKS_MAX,
            "follow_ns": FOLLOW_NS,
            "head_blocks": HEAD_BLOCKS,
            "load": load_rule(),
        })
    }

    /// What is known of devices, for explain; empty while nobody has asked for a server loop.
    pub(crate) fn delegated_devices(&self) -> Value {
        let delegated = self.services.file.delegated.as_ref();
        delegated.map_or(json!([]), Delegated::devices_json)
    }

    /// For the metrics.
    pub(crate) fn add_delegated(&self, registry: &mut Registry) {
        let counts = self
            .services
            .file
            .delegated
            .as_ref()
            .map_or_else(|| counted(&[], 0, (0, 0)), Delegated::counted);
        for (name, help, value) in counts {
            let counter: Counter = Counter::default();
            counter.inc_by(value);
            registry.register(format!("delegated_{name}"), help, counter);
        }
        let sessions =
            self.services.file.delegated.as_ref().map_or(0, |delegated| delegated.sessions.len());
        let kept = self.services.file.delegated.as_ref().map_or(0, |it| it.shared.blocks.kept());
        let gauges = [
            ("delegated_sessions", "Sessions that delegate operations now", sessions as u64),
            ("delegated_cache_bytes", "Bytes of file blocks now in the cache", kept * BLOCK_BYTES),
        ];
        for (name, help, value) in gauges {
            let gauge: Gauge = Gauge::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            registry.register(name, help, gauge);
        }
    }
}
