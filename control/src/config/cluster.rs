//! The cluster: this node's number and address, the secret's file, and the nodes that it seeks.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use heliostat_abi::cluster::limits::{MEMBERS_MAX, NODE_MAX};

use super::error::{ConfigError, Fault};
use super::field::{Field, Section};

/// A node of a cluster. There is no port, no thread and no file of it without the table `[cluster]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// This node's number, of all nodes of the cluster its alone.
    pub node: u64,
    /// Where others join it; port 0 lets the system choose.
    pub listen: ClusterAddress,
    /// The file of the cluster's secret.
    pub secret: PathBuf,
    /// The nodes that it joins, and joins again when they are lost.
    pub peers: Vec<ClusterPeer>,
    /// Whether another node's word counts which user asks; else its programs are given nothing here.
    pub trusts_users: bool,
    /// Who decides which nodes are members.
    pub registry: ClusterRegistry,
    /// How long a node is a member without being heard of by the registry.
    pub lease_s: u64,
}

/// Who decides which nodes are members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterRegistry {
    /// Each node for itself.
    Nobody,
    /// A node of the cluster, for all.
    Node(u64),
    /// etcd.
    Etcd {
        /// Its servers, with commas between them.
        servers: String,
        /// What our keys begin with there.
        prefix: String,
        /// How they are reached.
        access: Box<EtcdAccess>,
    },
}

/// How etcd is reached: files, none where nothing is said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EtcdAccess {
    /// Certificates of those who may have signed etcd's.
    pub authorities: Option<PathBuf>,
    /// This node's certificate, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
    /// A user of etcd, and the file of the password.
    pub user: Option<(String, PathBuf)>,
}

/// A node that is sought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterPeer {
    /// Its number.
    pub node: u64,
    /// Where it listens.
    pub address: ClusterAddress,
}

/// Where a node listens, and by which transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterAddress {
    /// By what.
    pub transport: ClusterTransport,
    /// Where.
    pub socket: SocketAddr,
}

/// What carries messages between nodes; the same for all nodes of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterTransport {
    /// Our own framing over TCP.
    Tcp,
    /// UCX, where it is installed.
    Ucx,
}

const KEYS: [&str; 13] = [
    "node",
    "listen",
    "secret",
    "peer",
    "users",
    "registry",
    "registry_prefix",
    "registry_ca",
    "registry_certificate",
    "registry_key",
    "registry_user",
    "registry_password",
    "lease_s",
];
/// Those of them that say how etcd is reached.
const OF_ETCD: [&str; 6] = [
    "registry_prefix",
    "registry_ca",
    "registry_certificate",
    "registry_key",
    "registry_user",
    "registry_password",
];
/// What our keys in etcd begin with, if nothing else is said.
const PREFIX: &str = "/heliostat/";
/// Seconds of a lease: etcd gives none that is shorter than its own election takes.
const LEASE_S: (u64, u64) = (2, 3600);
const LEASE_S_DEFAULT: u64 = 5;

impl Cluster {
    /// From the table `[cluster]`.
    pub(super) fn read(field: &Field<'_>) -> Result<Cluster, ConfigError> {
        let section = field.section(&KEYS)?;
        let node = section.required("node")?.number((1, NODE_MAX))?;
        let listen = ClusterAddress::read(&section.required("listen")?)?;
        let secret = section.required("secret")?;
        let path = absolute(&secret)?;
        let trusts_users = read_users(section.field("users").as_ref())?;
        let registry = ClusterRegistry::read(&section)?;
        let lease_s = section.field("lease_s").map(|it| it.number(LEASE_S)).transpose()?;
        let lease_s = lease_s.unwrap_or(LEASE_S_DEFAULT);
        let (secret, peers) = (path, Vec::new());
        let mut cluster = Cluster { node, listen, secret, peers, trusts_users, registry, lease_s };
        if let Some(peers) = section.field("peer") {
            cluster.read_peers(&peers)?;
        }
        Ok(cluster)
    }

    fn read_peers(&mut self, field: &Field<'_>) -> Result<(), ConfigError> {
        let list = field.list()?;
        if list.len() > MEMBERS_MAX {
            let message = format!("{} peers, at most {MEMBERS_MAX} are allowed", list.len());
            return Err(field.fault(Fault::Value(message)));
        }
        list.iter().try_for_each(|peer| self.read_peer(peer))
    }

    fn read_peer(&mut self, field: &Field<'_>) -> Result<(), ConfigError> {
        let section = field.section(&["node", "address"])?;
        let number = section.required("node")?;
        let node = number.number((1, NODE_MAX))?;
        let place = section.required("address")?;
        let address = ClusterAddress::read(&place)?;
        let is_twice = self.peers.iter().any(|peer| peer.node == node);
        let fault = match address {
            _ if node == self.node => Some((&number, format!("node {node} is this node"))),
            _ if is_twice => Some((&number, format!("node {node} is named twice"))),
            it if it.transport != self.listen.transport => {
                let (found, wanted) = (it.transport, self.listen.transport);
                let message = format!("`{found}:`, but this node listens by `{wanted}:`");
                Some((&place, message))
            }
            it if it.socket.port() == 0 => Some((&place, "port 0 leads nowhere".to_owned())),
            _ => None,
        };
        if let Some((field, message)) = fault {
            return Err(field.fault(Fault::Value(message)));
        }
        self.peers.push(ClusterPeer { node, address });
        Ok(())
    }
}

/// A path that does not depend on where the control plane was started.
fn absolute(field: &Field<'_>) -> Result<PathBuf, ConfigError> {
    let text = field.text()?;
    if !text.starts_with('/') {
        return Err(field.fault(Fault::Value(format!("{text:?} does not begin with /"))));
    }
    Ok(PathBuf::from(text))
}

impl EtcdAccess {
    fn read(section: &Section<'_>) -> Result<EtcdAccess, ConfigError> {
        let path = |key| section.field(key).map(|field| absolute(&field)).transpose();
        let together = |one: &str, other: &str| match section.field(one) {
            Some(field) if section.field(other).is_none() => {
                Err(field.fault(Fault::Value(format!("it takes {other} besides"))))
            }
            _ => Ok(()),
        };
        for (one, other) in
            [("registry_certificate", "registry_key"), ("registry_user", "registry_password")]
        {
            together(one, other)?;
            together(other, one)?;
        }
        let user = section.field("registry_user");
        let user = user.map(|field| field.text().map(str::to_owned)).transpose()?;
        Ok(EtcdAccess {
            authorities: path("registry_ca")?,
            own: path("registry_certificate")?.zip(path("registry_key")?),
            user: user.zip(path("registry_password")?),
        })
    }
}

/// Whether users of other nodes are who those say.
fn read_users(field: Option<&Field<'_>>) -> Result<bool, ConfigError> {
    let Some(field) = field else { return Ok(true) };
    match field.text()? {
        "trusted" => Ok(true),
        "none" => Ok(false),
        other => {
            let message = format!("{other:?} is neither \"trusted\" nor \"none\"");
            Err(field.fault(Fault::Value(message)))
        }
    }
}

impl ClusterRegistry {
    fn read(section: &Section<'_>) -> Result<ClusterRegistry, ConfigError> {
        let of_etcd = OF_ETCD.iter().find_map(|key| section.field(key));
        let Some(field) = section.field("registry") else {
            let alone = of_etcd.map(|it| it.fault(Fault::Value("there is no etcd".to_owned())));
            return alone.map_or(Ok(ClusterRegistry::Nobody), Err);
        };
        let text = field.text()?;
        let wrong = || {
            let wanted = "\"none\", \"node:NUMBER\" and \"etcd:http://HOST:PORT,...\" are";
            field.fault(Fault::Value(format!("{text:?} is no registry; {wanted}")))
        };
        if let Some(servers) = text.strip_prefix("etcd:") {
            let prefix = section.field("registry_prefix");
            let prefix = prefix.as_ref().map_or(Ok(PREFIX), |it| it.text())?.to_owned();
            let access = Box::new(EtcdAccess::read(section)?);
            return Ok(ClusterRegistry::Etcd { servers: servers.to_owned(), prefix, access });
        }
        if let Some(of_etcd) = of_etcd {
            return Err(of_etcd.fault(Fault::Value("the registry is not etcd".to_owned())));
        }
        if text == "none" {
            return Ok(ClusterRegistry::Nobody);
        }
        let node = text.strip_prefix("node:").and_then(|it| it.parse().ok());
        let node = node.filter(|node| (1..=NODE_MAX).contains(node)).ok_or_else(wrong)?;
        Ok(ClusterRegistry::Node(node))
    }
}

impl fmt::Display for ClusterRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterRegistry::Nobody => f.write_str("none"),
            ClusterRegistry::Node(node) => write!(f, "node:{node}"),
            ClusterRegistry::Etcd { servers, .. } => write!(f, "etcd:{servers}"),
        }
    }
}

impl ClusterAddress {
    fn read(field: &Field<'_>) -> Result<ClusterAddress, ConfigError> {
        let text = field.text()?;
        let wrong = || {
            let wanted = "tcp:HOST:PORT and ucx:HOST:PORT are, with a numeric host";
            field.fault(Fault::Value(format!("{text:?} is no address; {wanted}")))
        };
        let (transport, socket) = text.split_once(':').ok_or_else(wrong)?;
        let transport = match transport {
            "tcp" => ClusterTransport::Tcp,
            "ucx" => ClusterTransport::Ucx,
            _ => return Err(wrong()),
        };
        let socket = socket.parse().map_err(|_| wrong())?;
        Ok(ClusterAddress { transport, socket })
    }
}

impl fmt::Display for ClusterTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClusterTransport::Tcp => "tcp",
            ClusterTransport::Ucx => "ucx",
        })
    }
}

impl fmt::Display for ClusterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.socket)
    }
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
