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
use heliostat_server_node::{NodeCall, Outcome, PeerNode};
use heliostat_server_rpc::{RpcOrder, There};
use heliostat_service_rpc::{Asker, Remote};
use tracing::debug;

use super::requests::reply;
use super::served::served;
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};
use crate::services::cluster::{said_by, via};
use crate::state::asks::Waiter;
use crate::state::returns::Return;
use crate::state::rpc::Waiting;

/// How long a session waits for another node: less than its program waits for this control plane.
const ANSWER_NS: u64 = (CONTROL_DEADLINE_MS - 100) * 1_000_000;
/// How long an answer may take that brings a function which then has to be given back. The link ends
/// before, with all that was granted, where the node is hung or cut off.
const CALL_NS: u64 = 60_000_000_000;

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
        let wants_function = matches!(request, RpcRequest::Find { .. });
        let across = &self.services.rpc.across;
        if wants_function {
            across.remotes.check(id, asker.holder)?;
        }
        if !across.asks.may_ask(peer.node.0) {
            return Err(Code::Unreachable.into());
        }
        let process = self.session(id)?.pid();
        let (sequence, until_ns) = (self.sequence_of(id)?, monotonic_ns() + ANSWER_NS);
        let waiter = Some(Waiter { session: id, sequence, until_ns });
        let waiting = Waiting { waiter, peer, user: asker.uid, wants_function, returned: None };
        self.send_to_rpc_peer(waiting, process, ObjectId::default(), request)?;
        self.answer_later(id);
        // Not sent: `answer_later` says so.
        Ok(Reply::Done.into())
    }

    pub(super) fn send_to_rpc_peer(
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
            deadline_ns: monotonic_ns().saturating_add(CALL_NS),
        };
        let token = self.services.rpc.across.asks.wait(waiting);
        self.call_node(token, call).map_err(|error| {
            debug!(%error, "another node is not asked");
            self.services.rpc.across.asks.end(token);
            Code::Unreachable.into()
        })
    }

    /// Another node has answered, or will not.
    pub(super) fn take_rpc_answer(&mut self, token: u64, outcome: Outcome) {
        let Some(waiting) = self.services.rpc.across.asks.end(token) else { return };
        if let Some(returned) = waiting.returned {
            return self.take_returned_function(returned, outcome);
        }
        let said = said_by(waiting.peer, outcome);
        let answer = said.and_then(|reply| self.translate_rpc(&waiting, reply));
        if let Some(Waiter { session, sequence, .. }) = waiting.waiter {
            self.answer_late_to(session, sequence, answer);
        }
    }

    /// What an answer of another node is to a session of this one.
    fn translate_rpc(&mut self, waiting: &Waiting, found: PeerReply) -> Result<Answer, Refused> {
        let (user_there, own) = match found {
            PeerReply::Refused { code, limit, bound } => return Err(passed_on(code, limit, bound)),
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
        let Waiting { waiter, peer, user, .. } = *waiting;
        let (node, link) = (peer.node.0, peer.link.0);
        let remote = Remote { node, link, user_there, info, user, is_lost: false };
        let taken = waiter.ok_or(Refused::from(Code::Internal)).and_then(|waiter| {
            let session = waiter.session;
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
                self.give_function_back(Return { remote, tries: 0 });
                Err(refused)
            }
        }
    }

    /// Tells the loop where a session's function leads; nothing where its node is lost.
    fn tell_of_there(&self, session: ObjectId, function: ObjectId, remote: &Remote) {
        let Some(peer) = self.joined_node(remote.node).filter(|it| it.link.0 == remote.link) else {
            return;
        };
        let there = There { peer, user: remote.user_there, function: served(remote.info) };
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
            self.give_function_back(Return { remote, tries: 0 });
        }
        Some(Ok(Reply::Done.into()))
    }

    /// A session has ended: what it has on other nodes is given back.
    pub(super) fn end_functions_there(&mut self, session: ObjectId) {
        let across = &mut self.services.rpc.across;
        let given_up = across.asks.give_up(session);
        let remotes = across.remotes.end(session).into_iter();
        remotes.for_each(|remote| self.give_function_back(Return { remote, tries: 0 }));
        self.answer_waiters(given_up, Code::Revoked);
    }

    /// A node is lost: functions there lead nowhere from now on.
    pub(super) fn lose_functions_there(&mut self, peer: PeerNode) {
        let rpc = &mut self.services.rpc;
        rpc.across.remotes.lose(via(peer));
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
