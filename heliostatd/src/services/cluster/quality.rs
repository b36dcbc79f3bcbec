//! Classes of calls between nodes: what the configuration says of them, and how they fare.

use heliostat_abi::cluster::Class;
use heliostat_control::config::{Config, Scheme};
use heliostat_control::name::Name;
use heliostat_control::rights::Subject;
use heliostat_server_node::{BackOff, ClassCounts, Quality, Shares, WayState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::{json, Map, Value};

use crate::daemon::Daemon;

/// Whose way and which class a figure is about.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfClass {
    node: u64,
    class: &'static str,
}

/// Whose way.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfNode {
    node: u64,
}

/// What the node's thread is to do for classes.
pub(super) fn quality_of(config: &Config) -> Quality {
    let scheme = config.scheme();
    let of = config.quality;
    let shares = || Shares::new(of.high_percent, of.low_percent);
    let back_off = BackOff { round_trip_ns: of.round_trip_us.saturating_mul(1000) };
    Quality {
        shares: scheme.separates().then(shares).flatten(),
        back_off: scheme.backs_off().then_some(back_off),
        ceilings: config.classes.ceilings(),
    }
}

impl Daemon {
    /// The class of what a subject does on other nodes with a name, or with what has none.
    pub(crate) fn class_between_nodes(&self, subject: &Subject, name: Option<Name<'_>>) -> Class {
        let config = &self.parts.config;
        match config.scheme() {
            Scheme::None => Class::Normal,
            _ => config.classes.of(subject, name),
        }
    }

    /// Takes what the configuration says of classes over.
    pub(super) fn set_quality(&mut self, config: &Config) {
        if let Some(cluster) = &mut self.services.cluster {
            cluster.nodes.set_quality(quality_of(config));
        }
    }

    /// What is done for classes, and how they fare on the way to each node; null where nothing is.
    pub(super) fn quality_json(&self) -> Value {
        let Some(cluster) = &self.services.cluster else { return Value::Null };
        let quality = cluster.nodes.quality();
        if quality.shares.is_none() && quality.back_off.is_none() {
            return Value::Null;
        }
        let ways = cluster.nodes.ways();
        let ways: Map<_, _> =
            ways.iter().map(|(node, way)| (node.to_string(), way_json(way))).collect();
        json!({
            "separate": quality.shares.is_some(),
            "back_off": quality.back_off.is_some(),
            "most_for_nodes": quality.ceilings.iter()
                .map(|(node, class)| (node.to_string(), class.word().into()))
                .collect::<Map<_, _>>(),
            "ways": ways,
        })
    }

    /// The same in numbers that are read from time to time.
    pub(super) fn add_quality(&self, registry: &mut Registry) {
        let Some(cluster) = &self.services.cluster else { return };
        let quality = cluster.nodes.quality();
        if quality.shares.is_none() && quality.back_off.is_none() {
            return;
        }
        let ways = cluster.nodes.ways();
        add_counts(registry, &ways);
        let (rate, slowed) =
            (Family::<OfNode, Gauge>::default(), Family::<OfNode, Counter>::default());
        for (node, way) in &ways {
            let of = OfNode { node: *node };
            rate.get_or_create(&of).set(i64::try_from(way.low_per_second).unwrap_or(i64::MAX));
            slowed.get_or_create(&of).inc_by(way.slowed);
        }
        let help = "Bytes in a second that low calls to the node may have; 0 for any";
        registry.register("cluster_low_bytes_per_second", help, rate);
        let help = "How often low calls to the node were slowed";
        registry.register("cluster_low_slowed", help, slowed);
    }
}

fn add_counts(registry: &mut Registry, ways: &std::collections::BTreeMap<u64, WayState>) {
    type Of = fn(&ClassCounts) -> u64;
    let each: [(&str, &str, Of); 4] = [
        ("cluster_class_calls", "Calls to the node, by class", |it| it.calls),
        ("cluster_class_bytes", "Bytes of calls to the node, by class", |it| it.bytes),
        ("cluster_class_waited", "Calls that waited for room or their time", |it| it.waited),
        ("cluster_class_served", "Requests of the node that were served here", |it| it.served),
    ];
    for (name, help, of) in each {
        let family = Family::<OfClass, Counter>::default();
        for (node, way) in ways {
            for class in Class::ALL {
                let labels = OfClass { node: *node, class: class.word() };
                family.get_or_create(&labels).inc_by(of(&way.classes[class.place()]));
            }
        }
        registry.register(name, help, family);
    }
}

fn way_json(way: &WayState) -> Value {
    let of = |class: Class| {
        let counts = way.classes[class.place()];
        json!({
            "calls": counts.calls,
            "bytes": counts.bytes,
            "waited": counts.waited,
            "refused": counts.refused,
            "under_way": counts.under_way,
            "on_way_bytes": counts.on_way_bytes,
            "waiting": counts.waiting,
            "served": counts.served,
        })
    };
    json!({
        "high": of(Class::High),
        "normal": of(Class::Normal),
        "low": of(Class::Low),
        "pace": way.pace.word(),
        "low_bytes_per_second": (way.low_per_second > 0).then_some(way.low_per_second),
        "slowed": way.slowed,
        "released": way.released,
        "high_round_trip_ns": way.high_round_trip_ns,
    })
}
