//! Users of other nodes: what they ask of this control plane, and their end.
//!
//! ```text
//! request of a node --the user is that node's word--> session of link and user --> as any session's
//! the node is lost  --> its sessions end: they call nothing any more
//! ```
//! A node is believed which of its users calls, unless the configuration says no. Everything else is
//! looked up here. Root and the owner of this control plane are ordinary users when they call from
//! another node.

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::name::{OWN_USER, THIS_NODE};
use heliostat_abi::rpc::peer::{PeerControl, PeerReply};
use heliostat_abi::rpc::request::SERVICE;
use heliostat_abi::rpc::{RpcReply, RpcRequest};
use heliostat_base::clock::monotonic_ns;
use heliostat_control::rights::Right;
use heliostat_control::rules::Decision;
use heliostat_server_node::PeerNode;
use heliostat_server_rpc::{PeerCalls, RpcOrder};
use heliostat_service_grant::{is_of_peer, Holder, PeerUser};
use heliostat_service_rpc::{Asker, Key, Role};
use tracing::debug;

use crate::daemon::Daemon;
use crate::refused::{full_of, refuse, Refused};
use crate::services::cluster::{peer_subject, via};

impl Daemon {
    /// Takes calls of other nodes to the node's thread, if there is one.
    pub(super) fn host_rpc(&mut self) {
        if let Some(cluster) = &self.services.cluster {
            let hosted = cluster.nodes.host(SERVICE, PeerCalls::default());
            self.services.rpc.across.hosted = Some(hosted);
        }
    }

    /// Answers a request of another node. The header is foreign.
    pub(super) fn answer_rpc_peer(&mut self, peer: PeerNode, header: &[u8]) -> PeerReply {
        let answer = self.try_answer_rpc_peer(peer, header);
        self.reply_or_refusal(answer)
    }

    fn try_answer_rpc_peer(&mut self, peer: PeerNode, header: &[u8]) -> Result<PeerReply, Refused> {
        let control = PeerControl::decode(header).map_err(|error| {
            debug!(node = %peer.node, %error, "a malformed request of another node");
            Code::BadRecord
        })?;
        let PeerControl { user, process, session, request } = control;
        self.check_peer_user(user)?;
        debug!(node = %peer.node, user, process, ?request, "asked by another node");
        match request {
            RpcRequest::Find { user: owner, node: THIS_NODE, name } => {
                let uid = if owner == OWN_USER { user } else { owner };
                self.find_for_peer(peer, user, &Key { uid, name })
            }
            RpcRequest::Leave { function, serves: false, calls: true } => {
                self.leave_for_peer(peer, session, function)
            }
            RpcRequest::List { user: of, from, beginning } => {
                let sees = |owner: u32| (of == OWN_USER || owner == of) && owner == user;
                let grants = &self.services.rpc.grants;
                let (functions, next) = grants.list(from, &beginning, monotonic_ns(), sees);
                let reply = Box::new(RpcReply::Listed { functions, next }.encode());
                Ok(PeerReply::Own { session: ObjectId::default(), reply })
            }
            _ => Err(Code::BadRecord.into()),
        }
    }

    fn find_for_peer(
        &mut self,
        peer: PeerNode,
        user: u32,
        key: &Key,
    ) -> Result<PeerReply, Refused> {
        let subject = peer_subject(user);
        let rules = &self.parts.config.rules;
        let decision = rules.decide(&subject, Right::Call, &key.name, key.uid);
        let grants = &self.services.rpc.grants;
        let found = grants.resolve(key);
        let is_allowed = match decision {
            Decision::Foreign => found.is_some_and(|it| grants.is_open_to(it, user)),
            other => other.is_allowed(),
        };
        if !is_allowed {
            let (right, name) = (Right::Call.to_string(), key.name.to_string());
            self.denials.note(user, &right, &name, decision);
            return Err(Code::Denied.into());
        }
        if found.is_none() {
            return Err(Code::NotFound.into());
        }
        // What it is granted the loop has to know; a server that has published will need it as well.
        self.rpc_loop()?;
        let (node, link) = (peer.node.0, peer.link.0);
        // Restricted programs use no functions.
        let who = PeerUser { node, link, user, is_restricted: false };
        let full = |limit| full_of(Thing::Sessions, Side::Node, limit as u64);
        let met = self.services.rpc.across.users.meet(who);
        let (session, _) = met.map_err(|error| full(error.limit))?;
        // Never trusted: a share of its own user's, as any user of this node has.
        let holder = Holder::user(self.subordinates.owner_of(user));
        let (asker, mut effects) = (Asker { session, holder, uid: user }, Vec::new());
        let granted = self.services.rpc.grants.find(&asker, key, &mut effects);
        self.carry_out_rpc(effects);
        let function = granted.map_err(refuse(session))?;
        self.services.rpc.across.uses.add(session, function);
        let info = self.services.rpc.grants.info(function).ok_or(Code::Internal)?;
        Ok(PeerReply::Own { session, reply: Box::new(RpcReply::Granted(info).encode()) })
    }

    fn leave_for_peer(
        &mut self,
        peer: PeerNode,
        session: ObjectId,
        function: ObjectId,
    ) -> Result<PeerReply, Refused> {
        let across = &mut self.services.rpc.across;
        let is_its = across.users.get(session).is_some_and(|it| it.link == peer.link.0);
        if !is_its {
            return Err(Code::NotFound.into());
        }
        if across.uses.end(session, function) {
            let (mut effects, role) = (Vec::new(), Role { serves: false, calls: true });
            let left = self.services.rpc.grants.leave(session, function, role, &mut effects);
            self.carry_out_rpc(effects);
            left.map_err(refuse(session))?;
        }
        Ok(PeerReply::Done)
    }

    /// Tells the loop what a user of another node may call.
    pub(super) fn grant_to_user(&self, session: ObjectId, function: ObjectId, role: Role) {
        let rpc = &self.services.rpc;
        let Some(server) = &rpc.server else { return };
        let Some(who) = rpc.across.users.get(session) else { return };
        let joined = self.services.cluster.iter().flat_map(|cluster| cluster.joined.values());
        let peer = joined.copied().find(|peer| peer.link.0 == who.link);
        // Where the node is lost the loop has forgotten its users.
        let Some(peer) = peer else { return };
        let (user, may_call) = (who.user, role.calls);
        server.tell(RpcOrder::GrantUser { session, peer, user, function, may_call });
    }

    /// A node is lost: what its users have here ends.
    pub(super) fn end_rpc_users(&mut self, peer: PeerNode) {
        let across = &mut self.services.rpc.across;
        let sessions = across.users.lose(via(peer));
        across.uses.end_sessions(&sessions);
        let mut effects = Vec::new();
        for session in sessions {
            debug_assert!(is_of_peer(session));
            self.services.rpc.grants.end(session, &mut effects);
        }
        self.carry_out_rpc(effects);
    }
}
