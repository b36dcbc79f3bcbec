//! Memory regions as people see them.

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::{json, Value};

use crate::daemon::{Daemon, Viewer};
use crate::state::memory::MemoryLoops;

/// Regions named in a status: it costs everybody the time that it takes. `heliostat memory list`
/// names all of them.
const LISTED_MAX: usize = 128;
/// Operations that a loop of memory regions carries out.
const KINDS: [OpKind; 7] = [
    OpKind::Read,
    OpKind::Write,
    OpKind::Set,
    OpKind::Copy,
    OpKind::FetchAdd,
    OpKind::CompareSwap,
    OpKind::Swap,
];

impl MemoryLoops {
    /// How many operations of each kind the loops have carried out.
    fn counted(&self) -> Vec<(&'static str, u64)> {
        let loops = self.loops.as_ref().map_or(&[][..], |loops| loops.each());
        let count = |kind| loops.iter().map(|it| it.counts.operations_of(kind)).sum();
        KINDS.into_iter().map(|kind| (kind.name(), count(kind))).collect()
    }
}

impl Daemon {
    /// The whole of it, for status.
    pub(super) fn memory_json(&self, viewer: Viewer) -> Value {
        let memory = &self.services.memory;
        let (arenas, taken) = memory.grants.arena_count();
        let (mut regions, mut from) = (Vec::new(), 0);
        let now = monotonic_ns();
        while from != heliostat_abi::memory::reply::NO_MORE && regions.len() < LISTED_MAX {
            let (some, next) = memory.grants.list(from, "", now, |uid| viewer.sees(uid));
            regions.extend(some);
            from = next;
        }
        let each = regions.into_iter().take(LISTED_MAX).map(|region| {
            json!({
                "id": region.region.to_string(),
                "name": region.name.map(|name| name.to_string()),
                "uid": region.user,
                "bytes": region.bytes,
                "handles": region.handles,
                "lasting": region.lasting,
                "age_s": region.age_s,
            })
        });
        let regions: Vec<_> = each.collect();
        json!({
            "regions": memory.grants.region_count(),
            "names": memory.grants.name_count(),
            "gone_and_held": memory.grants.retired_count(),
            "moving": memory.grants.moves().count(),
            "in_doubt": memory.departures.values().filter(|it| it.is_in_doubt()).count(),
            "departed": memory.grants.forward_count(),
            "arenas": arenas,
            "bytes": taken,
            "delegated": memory.loops.as_ref().map(|loops| json!({
                "sessions": loops.sessions.len(),
                "operations": loops.counted().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            })),
            "listed": regions,
            "nodes": self.memory_nodes_json(viewer),
        })
    }

    /// What is between this node and others: their users here, and handles there.
    fn memory_nodes_json(&self, viewer: Viewer) -> Value {
        let memory = &self.services.memory;
        let across = &memory.across;
        let seen = across.users.iter().filter(|(_, who)| viewer.sees(who.user));
        let users = seen.take(LISTED_MAX).map(|(session, who)| {
            let handles = memory.grants.holding(session).handles;
            json!({ "node": who.node, "uid": who.user, "handles": handles })
        });
        let users: Vec<_> = users.collect();
        let (operations, refused) = across.holds.counted();
        let there = across.remotes.by_node().into_iter();
        json!({
            "users_of_others": users,
            "operations_for_others": operations,
            "refused_to_others": refused,
            "put_off_for_others": across.holds.put_off(),
            "handles_to_give_back": across.unreturned.len(),
            "handles_given_up": across.unreturned.forgotten,
            "handles_there": there.map(|(node, count)| (node.to_string(), count.into()))
                .collect::<serde_json::Map<_, _>>(),
        })
    }

    /// What a session holds.
    pub(super) fn memory_held_json(&self, session: ObjectId) -> Value {
        let held = self.services.memory.grants.holding(session);
        let there = self.services.memory.across.remotes.held(session);
        json!({
            "handles": held.handles,
            "delegated": held.delegated,
            "lost": held.lost,
            "on_other_nodes": there,
        })
    }

    /// By which path a session reaches its regions, and why; nothing where it has none.
    pub(super) fn memory_path_json(&self, session: ObjectId) -> Option<Value> {
        let memory = &self.services.memory;
        let held = memory.grants.holding(session);
        let there: std::collections::BTreeSet<_> =
            memory.across.remotes.of_session(session).map(|(_, remote)| remote.node).collect();
        if held.handles == 0 && there.is_empty() {
            return None;
        }
        let why = if held.handles == 0 {
            "the regions are on other nodes: a server loop has those carry its operations out"
        } else if self.is_restricted(session) {
            "the session is restricted: a server loop carries its operations out"
        } else if held.delegated > 0 {
            "regions of other users are delegated: a session maps memory of its own user only"
        } else {
            "the regions are of the session's own user: it maps them"
        };
        let served = memory.loops.as_ref().and_then(|loops| loops.sessions.get(&session));
        Some(json!({
            "session": session.to_string(),
            "handles": held.handles,
            "delegated": held.delegated,
            "lost": held.lost,
            "nodes": there,
            "classes": memory.across.classes_of(session),
            "loop": served.map(|served| served.loop_number),
            "why": why,
        }))
    }

    /// What is there now.
    pub(super) fn memory_gauges(&self) -> Vec<(&'static str, &'static str, u64)> {
        let memory = &self.services.memory;
        let (arenas, bytes) = memory.grants.arena_count();
        let sessions = memory.loops.as_ref().map_or(0, |loops| loops.sessions.len());
        let moves = memory.grants.moves().count();
        let (regions, gone) = (memory.grants.region_count(), memory.grants.retired_count());
        vec![
            ("memory_regions", "Memory regions", regions as u64),
            ("memory_regions_gone", "Memory regions that ended and are still held", gone as u64),
            ("memory_moves", "Memory regions on their way elsewhere", moves as u64),
            ("memory_bytes", "Bytes of memory regions", bytes),
            ("memory_arenas", "Files that memory regions lie in", arenas as u64),
            ("memory_sessions", "Sessions whose memory operations are delegated", sessions as u64),
        ]
    }

    /// What the loops have done.
    pub(super) fn add_memory(&self, registry: &mut Registry) {
        let Some(loops) = &self.services.memory.loops else { return };
        for (name, count) in loops.counted() {
            let counter: Counter = Counter::default();
            counter.inc_by(count);
            let help = "Delegated operations of this kind on memory regions";
            registry.register(format!("memory_operations_{name}"), help, counter);
        }
    }
}
