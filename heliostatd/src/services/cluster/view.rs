//! The cluster as people see it.

use heliostat_abi::cluster::{ListedRegistry, ETCD};
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::Address;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::{json, Value};

use crate::daemon::Daemon;
use crate::state::cluster::ClusterNode;
use crate::state::cluster_registry::{ClusterRegistry, RegistryCounts};

impl ClusterNode {
    /// What carries the messages, and which version of it.
    fn transport(&self) -> String {
        match (self.nodes.address(), heliostat_backend_ucx::version()) {
            (Address::Ucx(_), Ok((major, minor))) => format!("UCX {major}.{minor}"),
            (Address::Ucx(_), Err(_)) => "UCX".to_owned(),
            (Address::Tcp(_), _) => "TCP".to_owned(),
            (Address::Simulated(_), _) => "a simulated network".to_owned(),
        }
    }
}

impl ClusterNode {
    /// Who decides which nodes are members, for lists.
    pub(super) fn listed_registry(&self, now_ns: u64) -> ListedRegistry {
        let Some(it) = &self.registry else { return ListedRegistry::default() };
        let node = it.name.strip_prefix("node:").and_then(|node| node.parse().ok());
        ListedRegistry {
            kind: node.unwrap_or(ETCD),
            members: u32::try_from(self.members.registered_count()).unwrap_or(u32::MAX),
            lease_ms: it.lease_ms(now_ns),
        }
    }

    /// The registry, for status; null where there is none.
    fn registry_json(&self, now_ns: u64) -> Value {
        let Some(it) = &self.registry else { return Value::Null };
        json!({
            "name": it.name,
            "is_member": it.own.until_ns().is_some(),
            "lease_ms": it.lease_ms(now_ns),
            "members": self.members.registered_count(),
            "waiting": it.asked.len(),
            "records_kept": it.store.as_ref().map(|store| store.lock().len()),
            "why": it.own.why(),
        })
    }

    fn registry_counts(&self) -> RegistryCounts {
        self.registry.as_ref().map_or_else(RegistryCounts::default, |it| it.counts)
    }
}

impl ClusterRegistry {
    fn lease_ms(&self, now_ns: u64) -> u64 {
        let left_ns = self.own.until_ns().map_or(0, |until| until.saturating_sub(now_ns));
        left_ns / 1_000_000
    }
}

impl Daemon {
    /// The whole of it, for status; null where there is no cluster.
    pub(super) fn cluster_json(&self) -> Value {
        let Some(cluster) = &self.services.cluster else { return Value::Null };
        let now = monotonic_ns();
        let members = cluster.members.members().map(|(node, member)| {
            json!({
                "node": node,
                "address": member.address.as_str(),
                "state": member.state.word(),
                "incarnation": member.incarnation,
                "since_ms": now.saturating_sub(member.since_ns) / 1_000_000,
                "round_trip_ns": member.round_trip_ns,
                "failures": member.failures,
                "why": cluster.reasons.get(&node),
            })
        });
        json!({
            "node": cluster.members.own(),
            "incarnation": cluster.incarnation,
            "address": cluster.nodes.address().to_string(),
            "transport": cluster.transport(),
            "epoch": cluster.members.epoch(),
            "registry": cluster.registry_json(now),
            "joined": cluster.members.joined_count(),
            "is_ended": cluster.members.is_ended(),
            "calls_waiting": cluster.calls.len(),
            "nodes": members.collect::<Vec<_>>(),
            "quality": self.quality_json(),
        })
    }

    /// By what other nodes are reached, for explain; null where there is no cluster.
    pub(super) fn cluster_path_json(&self) -> Value {
        let Some(cluster) = &self.services.cluster else { return Value::Null };
        json!({
            "node": cluster.members.own(),
            "transport": cluster.transport(),
            "joined": cluster.members.joined_count(),
            "quality": self.quality_json(),
            "registry": cluster.registry_json(monotonic_ns()),
        })
    }

    /// What is there now.
    pub(super) fn cluster_gauges(&self) -> Vec<(&'static str, &'static str, u64)> {
        let Some(cluster) = &self.services.cluster else { return Vec::new() };
        let known = cluster.members.members().count() as u64;
        vec![
            ("cluster_nodes", "Other nodes that are members of the cluster", known),
            (
                "cluster_nodes_joined",
                "Other nodes that are joined",
                cluster.members.joined_count() as u64,
            ),
            ("cluster_epoch", "The registry's last change of membership", cluster.members.epoch()),
            (
                "cluster_registry_members",
                "Nodes that the registry names",
                cluster.members.registered_count() as u64,
            ),
            (
                "cluster_lease_milliseconds",
                "For how long this node may act without hearing of the registry",
                cluster.listed_registry(monotonic_ns()).lease_ms,
            ),
            (
                "cluster_calls_waiting",
                "Calls of the control plane to other nodes that have not ended",
                cluster.calls.len() as u64,
            ),
        ]
    }

    /// What happened so often.
    pub(super) fn add_cluster(&self, registry: &mut Registry) {
        let Some(cluster) = &self.services.cluster else { return };
        let (counts, registry_counts) = (cluster.counts, cluster.registry_counts());
        for (name, help, value) in [
            ("cluster_restarts", "Starts of the node's thread after the first", counts.restarts),
            ("cluster_joined", "Nodes joined", counts.joined),
            ("cluster_lost", "Nodes lost or left", counts.lost),
            ("cluster_not_joined", "Joins that came to nothing", counts.not_joined),
            ("cluster_asked", "Requests of other nodes to the control plane", counts.asked),
            ("cluster_calls", "Calls of the control plane to other nodes", counts.calls),
            ("cluster_calls_failed", "Those without an answer", counts.calls_failed),
            ("cluster_registered", "Times this node was registered", registry_counts.registered),
            ("cluster_fenced", "Times this node stopped, its lease over", registry_counts.fenced),
            (
                "cluster_declared_dead",
                "Nodes that the registry declared dead",
                registry_counts.dead,
            ),
            (
                "cluster_registry_operations",
                "Operations of the registry",
                registry_counts.operations,
            ),
            ("cluster_registry_failed", "Those not done, or perhaps", registry_counts.failed),
            ("cluster_registry_malformed", "Records of no member", registry_counts.malformed),
        ] {
            let counter: Counter = Counter::default();
            counter.inc_by(value);
            registry.register(name, help, counter);
        }
    }
}
