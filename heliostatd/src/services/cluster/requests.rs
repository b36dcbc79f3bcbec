//! What people and programs ask of the cluster.

use heliostat_abi::cluster::limits::LISTED_PER_REPLY_MAX;
use heliostat_abi::cluster::request::EVERY_NODE;
use heliostat_abi::cluster::{
    ClusterReply, ClusterRequest, Listed, ListedNode, MemberAddress, MemberState,
};
use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{Address, NodeId};
use heliostat_service_cluster::Member;
use tracing::{debug, info};

use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};
use crate::state::cluster::ClusterNode;

/// How long a measured distance is told before it is measured again.
const PROBE_INTERVAL_NS: u64 = 1_000_000_000;

impl Daemon {
    /// Answers a request that was decoded. Without a cluster there is nothing to ask of it.
    pub(super) fn answer_cluster(
        &mut self,
        id: ObjectId,
        request: ClusterRequest,
    ) -> Result<Answer, Refused> {
        let started_ns = self.started_ns;
        let is_owner = self.is_owner(id);
        let cluster = self.services.cluster.as_mut().ok_or(Code::BadState)?;
        if let ClusterRequest::Nodes { from } = request {
            let listed = cluster.list(from, started_ns, monotonic_ns());
            return Ok(reply(listed));
        }
        if let ClusterRequest::NodesOf { node, from } = request {
            return self.list_elsewhere(id, node, from);
        }
        if !is_owner {
            return Err(Code::Denied.into());
        }
        let (mut effects, now) = (Vec::new(), monotonic_ns());
        match request {
            ClusterRequest::Join { node, address } => {
                check_address(&address, cluster.nodes.address())?;
                info!(node, %address, "told to join a node");
                let joined = cluster.members.join(node, address, now, &mut effects);
                joined.map_err(refuse(id))?;
            }
            ClusterRequest::Leave { node: EVERY_NODE } => {
                info!("told to leave every node");
                cluster.members.leave_all(now, &mut effects);
            }
            ClusterRequest::Leave { node } => {
                info!(node, "told to leave a node");
                cluster.members.leave(node, now, &mut effects).map_err(refuse(id))?;
            }
            ClusterRequest::Nodes { .. } | ClusterRequest::NodesOf { .. } => {}
        }
        self.order_cluster(effects);
        Ok(Reply::Done.into())
    }
}

/// A list as an answer.
pub(super) fn reply(listed: Listed) -> Answer {
    Reply::Own(Box::new(ClusterReply::Listed(listed).encode())).into()
}

/// An address that this node's transport can connect to, or none.
fn check_address(address: &MemberAddress, own: Address) -> Result<(), Refused> {
    if address.is_none() || leads_somewhere(address, own) {
        return Ok(());
    }
    debug!(%address, "no address of this node's transport");
    Err(Code::BadRecord.into())
}

/// Whether an address is one that this node's transport can connect to.
pub(super) fn leads_somewhere(address: &MemberAddress, own: Address) -> bool {
    let parsed = (address.as_str().parse::<Address>(), own);
    matches!(
        parsed,
        (Ok(Address::Tcp(_)), Address::Tcp(_)) | (Ok(Address::Ucx(_)), Address::Ucx(_))
    )
}

impl ClusterNode {
    /// Some nodes, from a number on; this one among them.
    pub(super) fn list(&mut self, from: u64, started_ns: u64, now_ns: u64) -> Listed {
        self.probe(now_ns);
        let own = self.members.own();
        let here = ListedNode {
            node: own,
            incarnation: self.incarnation,
            state: MemberState::Here,
            since_ms: now_ns.saturating_sub(started_ns) / 1_000_000,
            round_trip_ns: 0,
            address: MemberAddress::parse(&self.nodes.address().to_string()).unwrap_or_default(),
        };
        let others = self.members.members().map(|(node, it)| listed(node, it, now_ns));
        let mut all: Vec<_> = others.chain([here]).filter(|it| it.node >= from).collect();
        all.sort_unstable_by_key(|it| it.node);
        let next = all.get(LISTED_PER_REPLY_MAX).map_or(0, |it| it.node);
        all.truncate(LISTED_PER_REPLY_MAX);
        let registry = self.listed_registry(now_ns);
        Listed { own, epoch: self.members.epoch(), registry, nodes: all, next }
    }

    /// Has it measured how far the others are, for whoever looks next.
    fn probe(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.probed_ns) < PROBE_INTERVAL_NS {
            return;
        }
        self.probed_ns = now_ns;
        self.joined.values().for_each(|peer| self.nodes.probe(NodeId(peer.node.0)));
    }
}

fn listed(node: u64, member: &Member, now_ns: u64) -> ListedNode {
    ListedNode {
        node,
        incarnation: member.incarnation,
        state: member.state,
        since_ms: now_ns.saturating_sub(member.since_ns) / 1_000_000,
        round_trip_ns: member.round_trip_ns.unwrap_or(0),
        address: member.address.clone(),
    }
}
