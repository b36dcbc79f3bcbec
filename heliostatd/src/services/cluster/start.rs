//! The node's thread begins: identity, transport, and the first list of members.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::Arc;

use heliostat_abi::cluster::MemberAddress;
use heliostat_backend_transport::tcp::Tcp;
use heliostat_backend_ucx::Ucx;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::config::{Cluster as Config, ClusterAddress, ClusterTransport};
use heliostat_server_node::{Identity, NodeId, NodeLimits, Nodes, NodesEvents, Transport};
use heliostat_service_cluster::Cluster;
use rustix::event::{eventfd, EventfdFlags};
use tracing::info;

use super::life::incarnation;
use super::quality::quality_of;
use super::{registry_of, secret};
use crate::daemon::Daemon;
use crate::poll::Source;
use crate::state::cluster::ClusterNode;

impl Daemon {
    /// Starts the node that the configuration describes, if it does.
    ///
    /// # Errors
    /// Its secret or its address is of no use; the text says which key of the configuration, and why.
    pub(super) fn start_cluster(&mut self) -> io::Result<()> {
        let Some(config) = &self.parts.config.cluster else { return Ok(()) };
        let mut cluster = start(config)?;
        cluster.nodes.set_quality(quality_of(&self.parts.config));
        self.poll.watch(&cluster.bell, Source::Cluster)?;
        self.services.cluster = Some(cluster);
        Ok(())
    }
}

fn start(config: &Config) -> io::Result<ClusterNode> {
    let secret = secret::read(&config.secret).map_err(io::Error::other)?;
    let incarnation = incarnation();
    let identity = Identity { node: NodeId(config.node), incarnation, secret };
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, events) = channel();
    let ClusterAddress { transport, socket } = config.listen;
    let told = NodesEvents::new(sender, bell.clone());
    let nodes =
        Nodes::start(identity, NodeLimits::default(), told, move || listen(transport, socket));
    let nodes = nodes
        .map_err(|error| io::Error::other(format!("cluster.listen: {}: {error}", config.listen)))?;
    let peers = config
        .peers
        .iter()
        .filter_map(|peer| Some((peer.node, MemberAddress::parse(&peer.address.to_string())?)));
    let mut members = Cluster::new(config.node, peers, monotonic_ns());
    info!(node = config.node, incarnation, address = %nodes.address(), "a node of a cluster");
    let registry = registry_of::start(config, incarnation, &nodes, &bell)?;
    if registry.is_some() {
        members.use_registry();
    }
    let mut cluster = ClusterNode::new(members, incarnation, nodes, events, bell);
    cluster.registry = registry;
    Ok(cluster)
}

pub(super) fn listen(
    transport: ClusterTransport,
    at: SocketAddr,
) -> Result<Box<dyn Transport>, String> {
    match transport {
        ClusterTransport::Tcp => match Tcp::listen(at) {
            Ok(tcp) => Ok(Box::new(tcp)),
            Err(error) => Err(error.to_string()),
        },
        ClusterTransport::Ucx => match Ucx::listen(at) {
            Ok(ucx) => Ok(Box::new(ucx)),
            Err(error) => Err(error.to_string()),
        },
    }
}
