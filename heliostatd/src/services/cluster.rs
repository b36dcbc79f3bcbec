//! The cluster: this node joins others, loses them, and carries what services ask of each other.
//!
//! ```text
//! node's thread --Joined, Lost, NotJoined--> service/cluster --Join, Leave--> node's thread
//!               --Request--> the service of its number: node_asked --> reply_node, refuse_node
//! a service --call_node--> node's thread --Answered--> that service: node_answered
//! ```
//! `heliostat_service_cluster` decides who is a member; `heliostat_server_node` has the links.

mod asked;
mod attend;
mod call;
mod elsewhere;
mod life;
mod private_file;
mod quality;
mod registry;
mod registry_of;
mod requests;
pub(crate) mod secret;
mod start;
mod view;

pub(crate) use asked::{peer_subject, said_by, to_peer, via};
pub use registry_of::{ask_once as ask_registry_once, look as look_at_registry};

use std::io;

use heliostat_abi::cluster::request::{number, SERVICE};
use heliostat_abi::cluster::ClusterRequest;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Asker, Row};
use heliostat_control::config::Config;
use heliostat_server_node::Outcome;
use prometheus_client::registry::Registry;

use super::own_request;
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, NodeAsked, Service, Told, Viewer};
use crate::refused::Refused;

/// The cluster, in the table of services.
pub struct ClusterMembers;

const fn row(name: &'static str) -> Row {
    Row { name, brings: 0..=0, keeps: 0, answers: 0, asker: Asker::Unrestricted }
}

const REQUESTS: &[(u16, Row)] = &[
    (number::NODES, row("cluster_nodes")),
    (number::JOIN, row("cluster_join")),
    (number::LEAVE, row("cluster_leave")),
    (number::NODES_OF, row("cluster_nodes_of")),
];

impl Service for ClusterMembers {
    fn number(&self) -> u16 {
        SERVICE
    }

    fn own_requests(&self) -> &'static [(u16, Row)] {
        REQUESTS
    }

    fn begin(&self, daemon: &mut Daemon) -> io::Result<()> {
        daemon.start_cluster()
    }

    fn answer(&self, daemon: &mut Daemon, asked: Asked) -> Result<Answer, Refused> {
        let request = own_request(&asked, "the cluster", ClusterRequest::decode)?;
        daemon.answer_cluster(asked.session, request)
    }

    fn node_asked(&self, daemon: &mut Daemon, asked: NodeAsked) {
        daemon.list_for_node(&asked);
    }

    fn node_answered(&self, daemon: &mut Daemon, token: u64, outcome: Outcome) {
        daemon.listed_elsewhere(token, outcome);
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        daemon.set_quality(config);
    }

    fn pass_time(&self, daemon: &mut Daemon, now_ns: u64) {
        daemon.seek_nodes(now_ns);
        daemon.pass_registry(now_ns);
    }

    fn next_deadline_ns(&self, daemon: &mut Daemon) -> Option<u64> {
        let cluster = daemon.services.cluster.as_ref()?;
        let registry = cluster.registry.as_ref().and_then(|registry| registry.next_ns());
        cluster.next_ns().into_iter().chain(registry).min()
    }

    fn status(&self, daemon: &Daemon, _: Viewer, told: &mut Told) {
        told.insert("cluster".into(), daemon.cluster_json());
    }

    fn explain(&self, daemon: &Daemon, _: &[ObjectId], told: &mut Told) {
        told.insert("cluster".into(), daemon.cluster_path_json());
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        daemon.cluster_gauges()
    }

    fn metrics(&self, daemon: &Daemon, registry: &mut Registry) {
        daemon.add_cluster(registry);
        daemon.add_quality(registry);
    }
}
