//! The nodes of a cluster, as the control plane of one of them sees them; told, or asked to change.
//!
//! One request each, in the program's own session; nothing here has a thread or keeps anything.
//! `docs/cluster.md` tells what the states mean.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

use std::fmt;

use heliostat_abi::cluster::request::EVERY_NODE;
use heliostat_abi::cluster::{ClusterReply, ClusterRequest};
use heliostat_abi::code::Code;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_client::session;
use heliostat_client::ControlError;

pub use heliostat_abi::cluster::{
    ListedNode, ListedRegistry, MemberAddress, MemberState, ETCD, NO_REGISTRY,
};

/// What one node sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nodes {
    /// The node that was asked.
    pub own: u64,
    /// The registry's revision of the last change of membership, the same for all; without a registry
    /// how many changes this node has seen, and another node has seen others.
    pub epoch: u64,
    /// Who decides which nodes are members.
    pub registry: ListedRegistry,
    /// All nodes that it knows of, itself among them, in order of number. One list is several
    /// requests: what changes in between may be in it or not.
    pub nodes: Vec<ListedNode>,
}

/// Why it was not told, or not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterError {
    /// The control plane is no node of a cluster, or this cannot be done to the node itself.
    NoCluster,
    /// No such node is known, or not where it is.
    Unknown {
        /// Which.
        node: u64,
    },
    /// The node is not joined, or did not answer in time.
    Unreachable {
        /// Which.
        node: u64,
    },
    /// The control plane's part for other nodes has ended, since its transport broke.
    Ended,
    /// The text is no address.
    Address,
    /// The control plane says no, did not answer, or is not there.
    Control(ControlError),
    /// The control plane answered what no control plane answers.
    Corrupt,
}

/// Returns which nodes there are, as this one sees it. Everybody who is not restricted may ask.
///
/// # Errors
/// The control plane is no node of a cluster, or does not answer.
pub fn nodes() -> Result<Nodes, ClusterError> {
    list(0, |from| ClusterRequest::Nodes { from })
}

/// Returns the same as another node sees it, which is asked and has 0.3 s to answer.
///
/// # Errors
/// As `nodes`; the other node is not joined, or does not answer.
pub fn nodes_of(node: u64) -> Result<Nodes, ClusterError> {
    list(node, |from| ClusterRequest::NodesOf { node, from })
}

/// Has a node joined, from now on, at its known address or at this one. Done is that it is begun.
///
/// # Errors
/// Only root and the owner of the control plane may, and not once its part for other nodes has ended;
/// nothing has changed.
pub fn join(node: u64, address: Option<&str>) -> Result<(), ClusterError> {
    let address = match address {
        Some(text) => MemberAddress::parse(text).ok_or(ClusterError::Address)?,
        None => MemberAddress::NONE,
    };
    tell(node, &ClusterRequest::Join { node, address })
}

/// Has a node left, until it is joined by command.
///
/// # Errors
/// As `join`.
pub fn leave(node: u64) -> Result<(), ClusterError> {
    tell(node, &ClusterRequest::Leave { node })
}

/// Has every node left.
///
/// # Errors
/// As `join`.
pub fn leave_all() -> Result<(), ClusterError> {
    tell(EVERY_NODE, &ClusterRequest::Leave { node: EVERY_NODE })
}

fn list(node: u64, request: impl Fn(u64) -> ClusterRequest) -> Result<Nodes, ClusterError> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let Reply::Own(own) = ask(node, &request(from))? else { return Err(ClusterError::Corrupt) };
        let reply = ClusterReply::decode(&own).map_err(|_| ClusterError::Corrupt)?;
        let ClusterReply::Listed(listed) = reply;
        let (own, epoch, registry) = (listed.own, listed.epoch, listed.registry);
        all.extend(listed.nodes);
        match listed.next {
            0 => return Ok(Nodes { own, epoch, registry, nodes: all }),
            // It goes forward, so it ends.
            next if next > from => from = next,
            _ => return Err(ClusterError::Corrupt),
        }
    }
}

fn tell(node: u64, request: &ClusterRequest) -> Result<(), ClusterError> {
    match ask(node, request)? {
        Reply::Done => Ok(()),
        _ => Err(ClusterError::Corrupt),
    }
}

fn ask(node: u64, request: &ClusterRequest) -> Result<Reply, ClusterError> {
    // A session that has ended is noticed here, so that the next one is asked.
    session::check_alive();
    let is_join = matches!(request, ClusterRequest::Join { .. });
    let request = Request::Own(request.encode());
    let (reply, _) = session::ask(&request, &[]).map_err(ClusterError::Control)?;
    match reply {
        Reply::Refused { code: Code::BadState, .. } => Err(ClusterError::NoCluster),
        Reply::Refused { code: Code::Internal, .. } if is_join => Err(ClusterError::Ended),
        Reply::Refused { code: Code::BadRecord, .. } => Err(ClusterError::Address),
        Reply::Refused { code: Code::NotFound, .. } => Err(ClusterError::Unknown { node }),
        Reply::Refused { code: Code::Unreachable, .. } => Err(ClusterError::Unreachable { node }),
        refused @ Reply::Refused { .. } => Err(ClusterError::Control(ControlError::from(&refused))),
        reply => Ok(reply),
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCluster => f.write_str(
                "the control plane is no node of a cluster, or this node is meant itself",
            ),
            Self::Unknown { node } => write!(f, "node {node} is not known, or not its address"),
            Self::Unreachable { node } => {
                write!(f, "node {node} is not joined, or did not answer in time")
            }
            Self::Ended => f.write_str(
                "the control plane's transport to other nodes broke: start the control plane again",
            ),
            Self::Address => {
                f.write_str("that is no address of this node's transport, as tcp:127.0.0.1:7700")
            }
            Self::Control(error) => error.fmt(f),
            Self::Corrupt => f.write_str("the control plane answered nonsense"),
        }
    }
}

impl std::error::Error for ClusterError {}
