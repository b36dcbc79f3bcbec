//! Delegated operations as people and metrics see them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heliostat_abi::delegated::{Kind, Way, DIRECT_GRAIN};
use heliostat_service_file::delegated::{AHEAD_BLOCKS_MAX, BLOCK_BYTES, DIRECT_FROM};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::{json, Map, Value};

use super::counts::Counts;
use crate::daemon::Daemon;

/// What is counted, by name; the same names in status and metrics.
fn counted(counts: &Counts) -> Vec<(String, &'static str, u64)> {
    let load = |counter: &AtomicU64| counter.load(Relaxed);
    let mut all = Vec::new();
    for (kind, counter) in Kind::ALL.iter().zip(&counts.operations) {
        let help = "Delegated operations of this kind that ended";
        all.push((format!("operations_{}", kind.name()), help, load(counter)));
    }
    for way in Way::ALL.iter().skip(1) {
        let help = "Delegated transfers that took this way";
        all.push((
            format!("transfers_{}", way.name()),
            help,
            load(&counts.transfers[*way as usize]),
        ));
        let help = "Bytes of delegated transfers that took this way";
        all.push((format!("bytes_{}", way.name()), help, load(&counts.bytes[*way as usize])));
    }
    all.push((
        "failed".into(),
        "Delegated operations that ended with an error",
        load(&counts.failed),
    ));
    let help = "Records in submission rings that were no operations";
    all.push(("malformed".into(), help, load(&counts.malformed)));
    let help = "Blocks that were read into the cache";
    all.push(("blocks_filled".into(), help, load(&counts.blocks_filled)));
    all.push(("sleeps".into(), "Times the server loop went to sleep", load(&counts.sleeps)));
    all
}

impl Daemon {
    /// For status; null while nobody has asked for the server loop.
    pub(crate) fn delegated_json(&self) -> Value {
        let Some(delegated) = &self.delegated else { return Value::Null };
        let each = counted(&delegated.counts).into_iter();
        let mut all: Map<String, Value> = each.map(|(name, _, it)| (name, json!(it))).collect();
        let kept = delegated.counts.blocks_kept.load(Relaxed);
        all.insert("sessions".into(), json!(delegated.sessions.len()));
        all.insert("cache_bytes".into(), json!(kept * BLOCK_BYTES));
        let limit = self.parts.config.delegated.cache_bytes;
        all.insert("cache_bytes_max".into(), json!(limit));
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
        })
    }

    /// For the metrics.
    pub(crate) fn add_delegated(&self, registry: &mut Registry) {
        let none = Counts::default();
        let counts = self.delegated.as_ref().map_or(&none, |delegated| &*delegated.counts);
        for (name, help, value) in counted(counts) {
            let counter: Counter = Counter::default();
            counter.inc_by(value);
            registry.register(format!("delegated_{name}"), help, counter);
        }
        let sessions = self.delegated.as_ref().map_or(0, |delegated| delegated.sessions.len());
        let gauges = [
            ("delegated_sessions", "Sessions that delegate operations now", sessions as u64),
            (
                "delegated_cache_bytes",
                "Bytes of file blocks now in the cache",
                counts.blocks_kept.load(Relaxed) * BLOCK_BYTES,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge: Gauge = Gauge::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            registry.register(name, help, gauge);
        }
    }
}
