//! Functions of other nodes: what this node's sessions ask of them, through their control planes.
//!
//! ```text
//! Find, ListOn --> request to its control plane, the session waits --> answer; the loop hears of it
//!                     '-- the node is lost, or does not answer: Unreachable
//! Leave, the session ends --> the node is told; nobody waits
//! ```

use heliostat_abi::code::Code;
use heliostat_abi::limits::CONTROL_DEADLINE_MS;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::name::THIS_NODE;
use heliostat_abi::rpc::peer::{place_elsewhere, PeerControl, PeerReply};
use heliostat_abi::rpc::request::SERVICE;
use heliostat_abi::rpc::{FunctionInfo, RpcReply, RpcRequest};
use heliostat_abi::session::record::{Bound, Reply};
use heliostat_base::clock::monotonic_ns;
use heliostat_control::name::Name;
use heliostat_server_node::{NodeCall, Outcome, PeerNode};
use heliostat_server_rpc::{RpcOrder, There};
use heliostat_service_rpc::{Asker, Remote};
use tracing::debug;

use super::requests::reply;
use super::served::served;
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};
use crate::state::rpc::Waiting;

/// How long another node may take: less than a program waits for this control plane.
const ANSWER_NS: u64 = (CONTROL_DEADLINE_MS - 100) * 1_000_000;

impl Daemon {
    /// Whether a node is another one.
    pub(super) fn is_elsewhere(&self, node: u32) -> bool {
        node != THIS_NODE && self.own_node() != Some(u64::from(node))
    }

    /// A session asks another node for a function, or which there are.
    pub(super) fn ask_rpc_node(
        &mut self,
        asker: &Asker,
        node: u32,
        request: RpcRequest,
    ) -> Result<Answer, Refused> {
        let id = asker.session;
        self.services.rpc.grants.check_session(id).map_err(refuse(id))?;
        let peer = self.joined_node(u64::from(node)).ok_or(Code::Unreachable)?;
        let name = match &request {
            RpcRequest::Find { name, .. } => Some(Name::from(name)),
            _ => None,
        };
        let wants_function = name.is_some();
        let class = self.class_between_nodes(&self.session(id)?.peer.subject, name);
        let across = &self.services.rpc.across;
        if wants_function {
            across.remotes.check(id, asker.holder)?;
        }
        if !across.may_ask(peer.node.0, false) {
            return Err(Code::Unreachable.into());
        }
        let process = self.session(id)?.pid();
        let sequence = self.answer_later_as(id).ok_or(Code::Internal)?;
        let session = Some((id, sequence));
        let waiting = Waiting { session, peer, user: asker.uid, wants_function, class };
        let sent = self.send_to_rpc_peer(waiting, process, ObjectId::default(), request);
        if let (Err(_), Some(connection)) = (&sent, self.connections.get_mut(id)) {
            connection.awaits = None;
        }
        sent?;
        // Not sent: `answer_later_as` says so.
        Ok(Reply::Done.into())
    }

    fn send_to_rpc_peer(
        &mut self,
        waiting: Waiting,
        process: u32,
        session: ObjectId,
        request: RpcRequest,
    ) -> Result<(), Refused> {
        let Waiting { peer, user, .. } = waiting;
        let control = PeerControl { user, process, session, request };
        let call = NodeCall {
            node: peer.node,
            link: Some(peer.link),
            service: SERVICE,
            header: control.encode().to_vec(),
            payload: Vec::new(),
            deadline_ns: monotonic_ns().saturating_add(ANSWER_NS),
        };
        let token = self.services.rpc.across.wait(waiting);
        self.call_node(token, call).map_err(|error| {
            debug!(%error, "another node is not asked");
            self.services.rpc.across.end(token);
            Code::Unreachable.into()
        })
    }

    /// Another node has answered, or will not.
    pub(super) fn take_rpc_answer(&mut self, token: u64, outcome: Outcome) {
        let Some(waiting) = self.services.rpc.across.end(token) else { return };
        let answer = outcome.map_err(|error| {
            debug!(%error, "another node has not answered");
            Refused::from(Code::Unreachable)
        });
        let answer = answer.and_then(|reply| {
            PeerReply::decode(&reply.header, &reply.payload).map_err(|error| {
                debug!(node = %waiting.peer.node, %error, "another node's answer is none");
                Code::Unreachable.into()
            })
        });
        let answer = answer.and_then(|reply| self.translate_rpc(&waiting, reply));
        if let Some((session, sequence)) = waiting.session {
            self.answer_late_to(session, sequence, answer);
        }
        self.return_functions();
    }

    /// What an answer of another node is to a session of this one.
    fn translate_rpc(&mut self, waiting: &Waiting, found: PeerReply) -> Result<Answer, Refused> {
        let (user_there, own) = match found {
            PeerReply::Refused { code, limit, bound } => return Err(passed_on(code, limit, bound)),
            PeerReply::Done if waiting.session.is_none() => return Ok(Reply::Done.into()),
            PeerReply::Done => return Err(Code::Unreachable.into()),
            PeerReply::Own { session, reply } => (session, reply),
        };
        let decoded = RpcReply::decode(&own).map_err(|_| Refused::from(Code::Unreachable))?;
        match (waiting.wants_function, decoded) {
            (false, RpcReply::Listed { functions, next }) => {
                Ok(reply(&RpcReply::Listed { functions, next }))
            }
            (true, RpcReply::Granted(info)) => self.take_function(waiting, user_there, info),
            _ => Err(Code::Unreachable.into()),
        }
    }

    /// Takes a function in that another node has granted. Where nobody waits for it, or there is no
    /// room, it is given back.
    fn take_function(
        &mut self,
        waiting: &Waiting,
        user_there: ObjectId,
        info: FunctionInfo,
    ) -> Result<Answer, Refused> {
        let Waiting { session, peer, user, class, .. } = *waiting;
        let (node, link) = (peer.node.0, peer.link.0);
        let remote = Remote { node, link, user_there, info, user, class, is_lost: false };
        let waits = session.filter(|(id, sequence)| {
            self.connections.get(*id).is_some_and(|it| it.awaits == Some(*sequence))
        });
        let taken = waits.ok_or(Refused::from(Code::Internal)).and_then(|(session, _)| {
            let holder = self.holder(session)?;
            let remotes = &mut self.services.rpc.across.remotes;
            Ok((session, remotes.insert(session, holder, remote)?))
        });
        match taken {
            Ok((session, function)) => {
                self.tell_of_there(session, function, &remote);
                let node = u32::try_from(node).unwrap_or(THIS_NODE);
                Ok(reply(&RpcReply::Granted(FunctionInfo { function, node, ..info })))
            }
            Err(refused) => {
                self.services.rpc.across.unreturned.push_back(remote);
                Err(refused)
            }
        }
    }

    /// Tells the loop where a session's function leads; nothing where its node is lost.
    fn tell_of_there(&self, session: ObjectId, function: ObjectId, remote: &Remote) {
        let Some(peer) = self.joined_node(remote.node).filter(|it| it.link.0 == remote.link) else {
            return;
        };
        let (user, class) = (remote.user_there, remote.class);
        let there = There { peer, user, function: served(remote.info), class };
        let (who, there) = (self.who_calls(session), Some(there));
        if let Some(server) = &self.services.rpc.server {
            server.tell(RpcOrder::GrantThere { session, who, function, there });
        }
    }

    /// Tells the loop that has just begun to serve a session what it has on other nodes.
    pub(super) fn open_functions_there(&mut self, session: ObjectId) {
        let held = self.services.rpc.across.remotes.of_session(session);
        let held: Vec<_> = held.map(|(function, remote)| (function, *remote)).collect();
        held.iter().for_each(|(function, remote)| self.tell_of_there(session, *function, remote));
    }

    /// A session is done with a function of another node; none where it is one of this.
    pub(super) fn leave_there(
        &mut self,
        session: ObjectId,
        function: ObjectId,
    ) -> Option<Result<Answer, Refused>> {
        place_elsewhere(function)?;
        let rpc = &mut self.services.rpc;
        let Some(remote) = rpc.across.remotes.remove(session, function) else {
            return Some(Err(Code::NotFound.into()));
        };
        if let Some(server) = &rpc.server {
            server.tell(RpcOrder::GrantThere { session, who: None, function, there: None });
        }
        if !remote.is_lost {
            rpc.across.unreturned.push_back(remote);
        }
        self.return_functions();
        Some(Ok(Reply::Done.into()))
    }

    /// A session has ended: what it has on other nodes is given back.
    pub(super) fn end_functions_there(&mut self, session: ObjectId) {
        let across = &mut self.services.rpc.across;
        let remotes = across.remotes.end(session);
        across.unreturned.extend(remotes);
        self.return_functions();
    }

    /// Gives back what waits for that, as far as calls to its nodes may be made.
    fn return_functions(&mut self) {
        for _ in 0..self.services.rpc.across.unreturned.len() {
            let across = &mut self.services.rpc.across;
            let Some(remote) = across.unreturned.pop_front() else { return };
            // Where the link is over the node knows.
            let peer = self.joined_node(remote.node).filter(|it| it.link.0 == remote.link);
            let Some(peer) = peer else { continue };
            let across = &mut self.services.rpc.across;
            if !across.may_ask(remote.node, true) {
                across.unreturned.push_back(remote);
                continue;
            }
            let Remote { user, class, .. } = remote;
            let waiting = Waiting { session: None, peer, user, wants_function: false, class };
            let function = remote.info.function;
            let leave = RpcRequest::Leave { function, serves: false, calls: true };
            if self.send_to_rpc_peer(waiting, 0, remote.user_there, leave).is_err() {
                self.services.rpc.across.unreturned.push_back(remote);
                return;
            }
        }
    }

    /// A node is lost: functions there lead nowhere from now on.
    pub(super) fn lose_functions_there(&mut self, peer: PeerNode) {
        let rpc = &mut self.services.rpc;
        rpc.across.remotes.lose(peer.node.0, peer.link.0);
        if let Some(server) = &rpc.server {
            server.tell(RpcOrder::Lost(peer));
        }
    }
}

/// What another node's refusal is to a session of this one. Only what says something about functions
/// goes on: whether that control plane fails, or is of another age, is its own matter.
fn passed_on(code: Code, limit: u64, bound: Bound) -> Refused {
    match code {
        Code::Full => Refused { code, limit, bound },
        Code::NotFound | Code::Denied => code.into(),
        _ => Code::Unreachable.into(),
    }
}
