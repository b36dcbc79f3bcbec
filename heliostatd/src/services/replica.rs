//! Regions on several nodes: the thread that has this node's replicas, and what it tells.
//!
//! ```text
//! cluster begins --> thread of replicas <-- nodes joined, lost
//! memory: Replicate, Map --> thread --> ReplicaEvent --> the session is answered (memory/replicated.rs)
//! ```
//! Programs ask the memory service. `heliostat_service_replica` decides, `heliostat_server_replica` has
//! the thread.

mod operations;
mod records;

use std::io;
use std::sync::Arc;

use heliostat_abi::code::Code;
use heliostat_backend_registry::Outcome;
use heliostat_control::config::{ClusterRegistry, Config};
use heliostat_server_node::PeerNode;
use heliostat_server_replica::{Limits, Member, Records, Replicas, Starting, SERVICE};
use serde_json::json;

use super::no_such_request;
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, Service, Told, Viewer};
use crate::poll::Source;
use crate::refused::Refused;
use crate::state::replica::{HandleTable, News, ReplicaEvent, ReplicatedRegions};
use operations::Operations;

/// Events attended to before others are served.
const EVENTS_AT_ONCE: usize = 1024;

/// Replicas of memory regions, in the table of services.
pub struct MemoryReplicas;

impl Service for MemoryReplicas {
    fn number(&self) -> u16 {
        SERVICE
    }

    fn begin(&self, daemon: &mut Daemon) -> io::Result<()> {
        daemon.start_replicas()
    }

    /// All is asked of the memory service.
    fn answer(&self, _: &mut Daemon, _: Asked) -> Result<Answer, Refused> {
        no_such_request()
    }

    fn node_joined(&self, daemon: &mut Daemon, peer: PeerNode) {
        if let Some(replica) = &daemon.services.replica {
            replica.replicas.joined(peer);
        }
    }

    fn node_lost(&self, daemon: &mut Daemon, peer: PeerNode) {
        if let Some(replica) = &daemon.services.replica {
            replica.replicas.lost(peer);
        }
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        if let Some(replica) = &daemon.services.replica {
            replica.replicas.set_limits(limits(config));
        }
    }

    fn registry_ended(&self, daemon: &mut Daemon, token: u64, outcome: Outcome) {
        daemon.record_came(token, outcome);
    }

    /// After the registry had declared this node dead it lives another life.
    fn registry_ready(&self, daemon: &mut Daemon, _: u64) {
        let life = daemon.services.cluster.as_ref().map(|cluster| cluster.incarnation);
        if let (Some(life), Some(replica)) = (life, &daemon.services.replica) {
            replica.replicas.lives(life);
        }
    }

    /// Answers who has waited long enough for a region to be placed, freed or altered.
    fn pass_time(&self, daemon: &mut Daemon, now_ns: u64) {
        let replica = daemon.services.replica.as_mut();
        let late = replica.map(|it| it.expire(now_ns)).unwrap_or_default();
        daemon.answer_waiters(late, Code::Unreachable);
    }

    fn next_deadline_ns(&self, daemon: &mut Daemon) -> Option<u64> {
        daemon.services.replica.as_ref()?.next_ns()
    }

    /// As it was a second ago at most.
    fn status(&self, daemon: &Daemon, viewer: Viewer, told: &mut Told) {
        let Some(replica) = &daemon.services.replica else { return };
        let status = replica.replicas.status();
        let seen = status.iter().filter(|it| viewer.sees(it.placement.owner));
        let each = seen.map(|it| {
            json!({
                "name": it.key,
                "bytes": it.placement.bytes,
                "epoch": it.placement.epoch,
                "primary": it.placement.primary.node,
                "backups": it.placement.backups.iter().map(|it| it.node).collect::<Vec<_>>(),
                "is_primary": it.is_primary,
                "entries": it.entries.0,
                "confirmed": it.entries.1,
            })
        });
        told.insert("replicas".into(), each.collect());
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        let count =
            daemon.services.replica.as_ref().map_or(0, |it| it.replicas.status().len() as u64);
        vec![("memory_replicas", "Replicas of memory regions", count)]
    }
}

/// What this node gives to replicas.
fn limits(config: &Config) -> Limits {
    let memory = &config.memory;
    Limits {
        replicas: memory.replicas,
        bytes: memory.replica_bytes,
        bytes_per_user: memory.replica_bytes_per_user.min(memory.bytes_per_user),
        found: memory.replicas_found,
    }
}

impl Daemon {
    /// Starts the thread of replicas, where there is a cluster.
    fn start_replicas(&mut self) -> io::Result<()> {
        let Some(cluster) = &self.services.cluster else { return Ok(()) };
        let config: &Config = &self.parts.config;
        let Some(settings) = &config.cluster else { return Ok(()) };
        let (handles, ends) = (HandleTable::default(), News::create()?);
        let numbers = settings.peers.iter().map(|peer| peer.node).chain([settings.node]);
        let starting = Starting {
            me: Member { node: settings.node, life: cluster.incarnation },
            records: match settings.registry {
                ClusterRegistry::Nobody => Records::Keeper(numbers.min().unwrap_or(settings.node)),
                _ => records::by_registry(ends.0.clone()),
            },
            limits: limits(config),
            believes_users: settings.trusts_users,
        };
        let replicas = Replicas::start(&cluster.nodes, starting)?;
        let operations = Operations::new(replicas.submitter(), handles.clone());
        self.poll.watch(&ends.0.bell, Source::Replica)?;
        let operations = Arc::new(operations);
        self.services.replica = Some(ReplicatedRegions::new(replicas, operations, handles, ends));
        Ok(())
    }

    /// Attends to what the thread tells.
    pub(crate) fn attend_replicas(&mut self) {
        let Some(replica) = &self.services.replica else { return };
        let bell = replica.news.bell.clone();
        let mut count = [0; 8];
        // It fails where nobody rang.
        let _ = rustix::io::read(&bell, &mut count);
        for _ in 0..EVENTS_AT_ONCE {
            let received = self.services.replica.as_ref().map(|it| it.events.try_recv());
            let Some(Ok(event)) = received else { return };
            match event {
                ReplicaEvent::Opened(token, result) => self.opened_replicated(token, result),
                ReplicaEvent::Freed(token, result) => self.freed_replicated(token, result),
                ReplicaEvent::Altered(token, result) => self.altered_replicated(token, result),
                ReplicaEvent::Ask(asked) => self.ask_record(asked),
            }
        }
        // More of them: the bell brings us back after the others.
        let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
    }
}
