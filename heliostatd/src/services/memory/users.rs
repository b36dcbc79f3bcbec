//! Users of other nodes: what they ask of this control plane, and their end.
//!
//! ```text
//! request of a node --the user is that node's word--> session of node and user --> as any session's
//! the node is lost  --> its sessions end: what they alone manage, and what is not lasting, is gone
//! ```
//! A node is believed which of its users asks, unless the configuration says no. Everything else is
//! looked up here: rules, the owner's word, handles, limits. Root and the owner of this control plane
//! are ordinary users when they come from another node.

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::memory::peer::{PeerControl, PeerReply};
use heliostat_abi::memory::request::SERVICE;
use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::name::Name;
use heliostat_control::rights::Right;
use heliostat_control::rules::Decision;
use heliostat_server_memory::PeerMemory;
use heliostat_server_node::PeerNode;
use heliostat_service_grant::{is_of_peer, Holder, PeerUser};
use heliostat_service_memory::Asker;
use tracing::debug;

use crate::daemon::Daemon;
use crate::refused::{full_of, refuse, Refused};
use crate::services::cluster::{peer_subject, to_peer, via};

impl Daemon {
    /// Takes operations of other nodes to the node's thread, if there is one.
    pub(super) fn host_memory(&mut self) {
        let holds = self.services.memory.across.holds.clone();
        if let Some(cluster) = &self.services.cluster {
            cluster.nodes.host(SERVICE, PeerMemory(holds));
        }
    }

    /// Answers a request of another node. The header is foreign.
    pub(super) fn answer_memory_peer(&mut self, peer: PeerNode, header: &[u8]) -> PeerReply {
        let answer = self.try_answer_memory_peer(peer, header);
        self.reply_or_refusal(answer)
    }

    fn try_answer_memory_peer(
        &mut self,
        peer: PeerNode,
        header: &[u8],
    ) -> Result<PeerReply, Refused> {
        let control = PeerControl::decode(header).map_err(|error| {
            debug!(node = %peer.node, %error, "a malformed request of another node");
            Code::BadRecord
        })?;
        self.check_peer_user(control.user)?;
        let PeerControl { user, is_restricted, process, request } = control;
        debug!(node = %peer.node, user, process, ?request, "asked by another node");
        let (node, link) = (peer.node.0, peer.link.0);
        let session = self.meet_user(peer, PeerUser { node, link, user, is_restricted })?;
        to_peer(session, self.answer_memory(session, request, None)?)
    }

    /// The session of a user of another node, which begins with its first request.
    fn meet_user(&mut self, peer: PeerNode, who: PeerUser) -> Result<ObjectId, Refused> {
        let across = &mut self.services.memory.across;
        let met = across.users.meet(who);
        let full = |limit| full_of(Thing::Sessions, Side::Node, limit as u64);
        let (session, is_new) = met.map_err(|error| full(error.limit))?;
        if is_new {
            across.holds.begin(session, peer);
            let asker = self.peer_user_asker(session).ok_or(Code::Internal)?;
            let mut effects = Vec::new();
            let served = self.services.memory.grants.serve(&asker, &mut effects);
            self.carry_out_memory(effects);
            served.map_err(refuse(session))?;
            let rates = &self.parts.config.rates;
            if let Some(rate) = rates.of_peer_session(&peer_subject(who.user), who.node) {
                let (whose, now_ns) = ((who.node, who.user), monotonic_ns());
                let meter = self.services.meters.of_peer(rate, session, whose, now_ns);
                self.services.memory.across.holds.limit_user(session, meter);
            }
        }
        Ok(session)
    }

    /// Who a session is, if it is a user of another node.
    pub(super) fn peer_user_asker(&self, session: ObjectId) -> Option<Asker> {
        let who = self.services.memory.across.users.get(session)?;
        // Never trusted: a share of its own user's, as any user of this node has.
        let holder = Holder::user(self.subordinates.owner_of(who.user));
        Some(Asker { session, holder, uid: who.user, maps: false, is_user: !who.is_restricted })
    }

    /// Whether somebody may do something with a name, of this node or of another.
    pub(super) fn decide_memory<'a>(
        &self,
        asker: &Asker,
        right: Right,
        name: impl Into<Name<'a>>,
        owner: u32,
    ) -> Result<Decision, Refused> {
        if !is_of_peer(asker.session) {
            return self.decide(asker.session, right, name, owner);
        }
        let subject = peer_subject(asker.uid);
        Ok(self.parts.config.rules.decide(&subject, right, name, owner))
    }

    /// Refuses what somebody may not do with a name, and counts it for people.
    pub(super) fn check_memory_right<'a>(
        &mut self,
        asker: &Asker,
        right: Right,
        name: impl Into<Name<'a>>,
        owner: u32,
    ) -> Result<(), Refused> {
        let name = name.into();
        let decision = self.decide_memory(asker, right, name, owner)?;
        if decision.is_allowed() {
            return Ok(());
        }
        self.denials.note(asker.uid, &right.to_string(), &name.to_string(), decision);
        Err(Code::Denied.into())
    }

    /// A node is lost: what its users hold here ends.
    pub(super) fn end_memory_users(&mut self, peer: PeerNode) {
        let across = &mut self.services.memory.across;
        let sessions = across.users.lose(via(peer));
        let mut effects = Vec::new();
        for session in sessions {
            let memory = &mut self.services.memory;
            // From here on nobody touches anything for it.
            memory.across.holds.end(session);
            memory.grants.end(session, &mut effects);
            memory.grants.let_session_go(session, &mut effects);
            self.services.meters.end(session);
        }
        self.carry_out_memory(effects);
    }
}
