//! Which registry the configuration names, and its start.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use heliostat_abi::cluster::{MemberAddress, RegisteredMember};
use heliostat_backend_registry::etcd::{Access, Bell, Credentials, Endpoints, Etcd};
use heliostat_backend_registry::{LeaseId, Limits, Memory, Registry, SharedStore};
use heliostat_base::clock::monotonic_ns;
use heliostat_control::config::{Cluster as Config, ClusterRegistry as Named, EtcdAccess};
use heliostat_server_node::Nodes;
use heliostat_server_registry::{Host, Remote, SERVICE};
use heliostat_service_cluster::{Registration, Timing};
use tracing::warn;

use super::life::incarnation;
use super::private_file;
use crate::state::cluster_registry::ClusterRegistry;

/// How long `--check` waits for etcd.
const CHECK_NS_MAX: u64 = 3_000_000_000;

/// Starts the registry that the configuration names, if it names one. Nothing is asked of it yet.
///
/// # Errors
/// The text says which key of the configuration is wrong, and why.
pub(super) fn start(
    config: &Config,
    life: u64,
    nodes: &Nodes,
    bell: &Arc<OwnedFd>,
) -> io::Result<Option<ClusterRegistry>> {
    let (mut store, mut host) = (None, None);
    let ring = ring(bell);
    let registry: Box<dyn Registry> = match &config.registry {
        Named::Nobody => return Ok(None),
        Named::Etcd { servers, prefix, access } => {
            let endpoints = endpoints(servers, prefix, access).map_err(io::Error::other)?;
            Box::new(Etcd::start(endpoints, ring)?)
        }
        Named::Node(node) if *node != config.node => {
            Box::new(Remote::new(nodes.caller(), *node, ring))
        }
        Named::Node(_) => {
            // Later than any revision of an earlier life of these records.
            let kept = SharedStore::new(incarnation(), Limits::default());
            store = Some(kept.clone());
            host = Some(nodes.host(SERVICE, Host::new(kept.clone(), nodes.replies(), ring)));
            Box::new(Memory::new(kept, LeaseId { node: config.node, life }))
        }
    };
    nodes.use_registry();
    let is_reached = !config.listen.socket.ip().is_unspecified();
    if !is_reached {
        let at = config.listen;
        warn!(%at, "no other node can join this one there: it is registered without an address");
    }
    let address = MemberAddress::parse(&nodes.address().to_string()).filter(|_| is_reached);
    let address = address.unwrap_or_default();
    let record = RegisteredMember { node: config.node, incarnation: life, address };
    let timing = Timing { ttl_ns: config.lease_s * 1_000_000_000 };
    let own = Registration::new(record, timing, monotonic_ns());
    let mut it = ClusterRegistry::new(registry, config.registry.to_string(), own, store);
    it.host = host;
    Ok(Some(it))
}

/// Rings the control plane's bell, on any thread.
fn ring(bell: &Arc<OwnedFd>) -> Bell {
    let bell = bell.clone();
    Arc::new(move || {
        // It fails only when the counter is full, and then it rings already.
        let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
    })
}

fn endpoints(servers: &str, prefix: &str, access: &EtcdAccess) -> Result<Endpoints, String> {
    let named = |error| format!("cluster.registry: {error}");
    let endpoints = Endpoints::parse(servers, prefix).map_err(named)?;
    endpoints.by(read_access(access)?).map_err(named)
}

/// Reads the files by which etcd is reached. The key and the password nobody else may read.
fn read_access(access: &EtcdAccess) -> Result<Access, String> {
    let EtcdAccess { authorities, own, user } = access;
    let read = |path: &PathBuf, key: &str| {
        let read = std::fs::read(path);
        read.map_err(|error| format!("cluster.{key}: {}: {error}", path.display()))
    };
    let authorities = authorities.as_ref().map(|path| read(path, "registry_ca")).transpose()?;
    let own = own.as_ref().map(|(certificate, key)| {
        let key = private_file::read(key, "registry_key")?;
        Ok::<_, String>((read(certificate, "registry_certificate")?, key.into_bytes()))
    });
    let user = user.as_ref().map(|(name, password)| {
        let password = private_file::read(password, "registry_password")?;
        Ok::<_, String>((name.clone(), password.trim_end_matches(['\r', '\n']).to_owned()))
    });
    let given = Credentials { authorities, own: own.transpose()?, user: user.transpose()? };
    Access::read(given).map_err(|error| format!("cluster.{error}"))
}

/// Whether the registry's name is one, without asking it.
///
/// # Errors
/// The text says what would be right.
pub fn look(config: &Config) -> Result<(), String> {
    match &config.registry {
        Named::Etcd { servers, prefix, access } => endpoints(servers, prefix, access).map(|_| ()),
        _ => Ok(()),
    }
}

/// Whether the registry answers; waits for it.
///
/// # Errors
/// Each of its servers, with the reason why it does not.
pub fn ask_once(config: &Config) -> Result<(), String> {
    let Named::Etcd { servers, prefix, access } = &config.registry else { return Ok(()) };
    let endpoints = endpoints(servers, prefix, access)?;
    let deadline_ns = monotonic_ns().saturating_add(CHECK_NS_MAX);
    let asked = Etcd::check(endpoints, deadline_ns);
    asked.map(|_| ()).map_err(|error| format!("cluster.registry: {error}"))
}
