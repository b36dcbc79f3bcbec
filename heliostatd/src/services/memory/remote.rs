//! Regions of other nodes: what this node's sessions ask of them, through their control planes.
//!
//! ```text
//! On node, or a handle there --> request to its control plane, the session waits --> answer
//!                                    '-- the node is lost, or does not answer: Unreachable
//! unmap, the session ends    --> the node is told; nobody waits
//! ```

use heliostat_abi::cluster::Class;
use heliostat_abi::code::Code;
use heliostat_abi::limits::CONTROL_DEADLINE_MS;
use heliostat_abi::memory::peer::{PeerControl, PeerHandle, PeerReply};
use heliostat_abi::memory::request::SERVICE;
use heliostat_abi::memory::{Granted, MemoryReply, MemoryRequest, MoveState};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_memory::{is_replicated, MemoryOrder, There};
use heliostat_server_node::{LinkId, NodeCall, Outcome, PeerNode};
use heliostat_service_memory::{Asker, Remote};
use tracing::debug;

use super::requests::reply;
use super::there::{granted_there, passed_on};
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};
use crate::services::cluster::said_by;
use crate::state::asks::Waiter;
use crate::state::memory::{OfHandle, Waiting, Wanted};
use crate::state::returns::Return;

/// How long a session waits for another node: less than its program waits for this control plane.
pub(super) const ANSWER_NS: u64 = (CONTROL_DEADLINE_MS - 100) * 1_000_000;
/// How long an answer may take that brings a handle which then has to be given back. The link ends
/// before, with all handles, where the node is hung or cut off.
const CALL_NS: u64 = 60_000_000_000;
/// The same of an answer without a handle for which a region waits that moves.
const DEPARTURE_NS: u64 = 10_000_000_000;

impl Daemon {
    /// A session asks another node for a region, or which there are.
    pub(super) fn ask_node(
        &mut self,
        asker: &Asker,
        node: u64,
        request: MemoryRequest,
    ) -> Result<Answer, Refused> {
        self.check_not_revoked(asker.session)?;
        if self.own_node() == Some(node) {
            return self.answer_memory(asker.session, request, None);
        }
        // Its policy names regions of this node.
        if !asker.is_user {
            return Err(Code::Denied.into());
        }
        let peer = self.joined_node(node).ok_or(Code::Unreachable)?;
        let wanted = match request {
            MemoryRequest::List { .. } => Wanted::Answer,
            _ => Wanted::Handle,
        };
        if wanted == Wanted::Handle {
            self.services.memory.across.remotes.check(asker.session, asker.holder)?;
        }
        self.ask_peer(asker, peer, request, wanted)
    }

    /// A session asks something about the region of a handle on another node.
    pub(super) fn ask_holder(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        request: MemoryRequest,
    ) -> Result<Answer, Refused> {
        self.check_not_revoked(asker.session)?;
        let remotes = &self.services.memory.across.remotes;
        let remote = *remotes.get(asker.session, handle).ok_or(Code::NotFound)?;
        if is_replicated(LinkId(remote.link)) {
            return self.ask_replicated(asker, handle, &remote, &request);
        }
        let (request, wanted) = match request {
            MemoryRequest::Unmap { .. } => return self.unmap_remote(asker.session, handle),
            MemoryRequest::Class { class, .. } => {
                return self.choose_class(asker.session, handle, class)
            }
            other => by_its_holder(other, handle, remote.there.handle).ok_or(Code::BadState)?,
        };
        if remote.is_lost {
            return Err(Code::Unreachable.into());
        }
        let peer = self.node_of(&remote).ok_or(Code::Unreachable)?;
        self.ask_peer(asker, peer, request, wanted)
    }

    /// The other node knows nothing of what was revoked here.
    fn check_not_revoked(&self, session: ObjectId) -> Result<(), Refused> {
        self.services.memory.grants.check_session(session).map_err(refuse(session))
    }

    fn ask_peer(
        &mut self,
        asker: &Asker,
        peer: PeerNode,
        request: MemoryRequest,
        wanted: Wanted,
    ) -> Result<Answer, Refused> {
        let id = asker.session;
        if !self.services.memory.across.asks.may_ask(peer.node.0) {
            return Err(Code::Unreachable.into());
        }
        let class = self.class_of_request(id, &request)?;
        let process = self.session(id)?.pid();
        let until_ns = monotonic_ns().saturating_add(ANSWER_NS);
        let sequence = self.sequence_of(id)?;
        let waiting = Waiting {
            waiter: Some(Waiter { session: id, sequence, until_ns }),
            peer,
            user: asker.uid,
            is_restricted: !asker.is_user,
            wanted,
            class,
            returned: None,
        };
        self.send_to_peer(waiting, process, request)?;
        self.answer_later(id);
        // Not sent: `answer_later` says so.
        Ok(Reply::Done.into())
    }

    pub(super) fn send_to_peer(
        &mut self,
        waiting: Waiting,
        process: u32,
        request: MemoryRequest,
    ) -> Result<(), Refused> {
        let Waiting { peer, user, is_restricted, .. } = waiting;
        let within_ns = match request {
            MemoryRequest::Appoint { .. } | MemoryRequest::Adopt { .. }
                if matches!(waiting.wanted, Wanted::Departure(_)) =>
            {
                DEPARTURE_NS
            }
            _ => CALL_NS,
        };
        let control = PeerControl { user, is_restricted, process, request };
        let call = NodeCall {
            node: peer.node,
            link: Some(peer.link),
            service: SERVICE,
            header: control.encode().to_vec(),
            payload: Vec::new(),
            deadline_ns: monotonic_ns().saturating_add(within_ns),
        };
        let token = self.services.memory.across.asks.wait(waiting);
        self.call_node(token, call).map_err(|error| {
            debug!(%error, "another node is not asked");
            self.services.memory.across.asks.end(token);
            Code::Unreachable.into()
        })
    }

    /// Another node has answered, or will not.
    pub(super) fn take_memory_answer(&mut self, token: u64, outcome: Outcome) {
        if self.take_written(token, &outcome) {
            return;
        }
        let Some(waiting) = self.services.memory.across.asks.end(token) else { return };
        if let Wanted::Departure(region) = waiting.wanted {
            return self.take_departure_answer(region, outcome);
        }
        if let Some(returned) = waiting.returned {
            return self.take_returned(returned, outcome);
        }
        let said = said_by(waiting.peer, outcome);
        let answer = said.and_then(|reply| self.translate_memory(&waiting, reply));
        if let Some(Waiter { session, sequence, .. }) = waiting.waiter {
            self.answer_late_to(session, sequence, answer);
        }
    }

    /// What an answer of another node is to a session of this one.
    fn translate_memory(&mut self, waiting: &Waiting, found: PeerReply) -> Result<Answer, Refused> {
        let (there, own) = match found {
            PeerReply::Refused { code, limit, bound } => return Err(passed_on(code, limit, bound)),
            PeerReply::Done => {
                if let (Wanted::End(handle), Some(waiter)) = (waiting.wanted, waiting.waiter) {
                    self.forget_remote(waiter.session, handle);
                }
                return match waiting.wanted {
                    Wanted::Handle | Wanted::Of(_) | Wanted::Departure(_) => {
                        Err(Code::Unreachable.into())
                    }
                    Wanted::End(_) | Wanted::Answer => Ok(Reply::Done.into()),
                };
            }
            PeerReply::Own { session, reply } => (session, reply),
        };
        let unasked = || Refused::from(Code::Unreachable);
        match (waiting.wanted, MemoryReply::decode(&own).map_err(|_| unasked())?) {
            (Wanted::Answer, MemoryReply::Listed { regions, next }) => {
                Ok(reply(&MemoryReply::Listed { regions, next }))
            }
            (Wanted::Answer | Wanted::Handle, MemoryReply::Moving(state)) => {
                Ok(reply(&MemoryReply::Moving(MoveState { process: 0, ..state })))
            }
            (Wanted::Handle, MemoryReply::Granted(granted)) => {
                self.take_remote(waiting, there, granted)
            }
            (Wanted::Of(handle), MemoryReply::Granted(granted)) => {
                Ok(granted_there(waiting.peer, handle, granted))
            }
            _ => Err(unasked()),
        }
    }

    /// Takes a handle in that another node has granted. Where nobody waits for it, or there is no room,
    /// it is given back.
    fn take_remote(
        &mut self,
        waiting: &Waiting,
        session_there: ObjectId,
        granted: Granted,
    ) -> Result<Answer, Refused> {
        let Waiting { waiter, peer, user, is_restricted, .. } = *waiting;
        let there = PeerHandle { session: session_there, handle: granted.handle };
        let remote = Remote {
            node: peer.node.0,
            link: peer.link.0,
            there,
            region: granted.region,
            rights: granted.rights,
            user,
            is_restricted,
            is_lost: false,
        };
        let taken = waiter.ok_or(Refused::from(Code::Internal)).and_then(|waiter| {
            let session = waiter.session;
            let holder = self.holder(session)?;
            let remotes = &mut self.services.memory.across.remotes;
            Ok((session, remotes.insert(session, holder, remote)?))
        });
        match taken {
            Ok((session, handle)) => {
                let there = There { peer, handle: there };
                let class = waiting.class;
                if class != Class::Normal {
                    let of = OfHandle { most: class, chosen: class };
                    self.services.memory.across.classes.insert((session, handle), of);
                    self.services
                        .memory
                        .tell(session, MemoryOrder::Class { session, handle, class });
                }
                let order = MemoryOrder::HoldThere { session, handle, there };
                self.services.memory.tell(session, order);
                Ok(granted_there(peer, handle, granted))
            }
            Err(refused) => {
                self.give_back_remote(Return { remote, tries: 0 });
                Err(refused)
            }
        }
    }

    /// Gives a handle back; the program need not wait for the other node.
    pub(super) fn unmap_remote(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
    ) -> Result<Answer, Refused> {
        let remote = self.forget_remote(session, handle).ok_or(Code::NotFound)?;
        if !remote.is_lost {
            self.give_back_remote(Return { remote, tries: 0 });
        }
        Ok(Reply::Done.into())
    }

    pub(super) fn forget_remote(&mut self, session: ObjectId, handle: ObjectId) -> Option<Remote> {
        let memory = &mut self.services.memory;
        let remote = memory.across.remotes.remove(session, handle)?;
        memory.across.classes.remove(&(session, handle));
        memory.tell(session, MemoryOrder::Drop { session, handle });
        Some(remote)
    }

    /// The node that has granted a handle, while the link lasts by which it has.
    pub(super) fn node_of(&self, remote: &Remote) -> Option<PeerNode> {
        self.joined_node(remote.node).filter(|peer| peer.link.0 == remote.link)
    }

    /// A session has ended: what it holds on other nodes is given back.
    pub(super) fn end_remotes(&mut self, session: ObjectId) {
        let across = &mut self.services.memory.across;
        let given_up = across.asks.give_up(session);
        across.classes.retain(|(its, _), _| *its != session);
        let remotes = across.remotes.end(session);
        let returned = remotes.into_iter().map(|remote| Return { remote, tries: 0 });
        returned.for_each(|returned| self.give_back_remote(returned));
        self.answer_waiters(given_up, Code::Revoked);
        let replica = self.services.replica.as_mut();
        let given_up = replica.map(|it| it.give_up(session)).unwrap_or_default();
        self.answer_waiters(given_up, Code::Revoked);
    }

    /// Answers those that have waited long enough for another node, and gives back what could not be.
    pub(crate) fn end_late_nodes(&mut self, now_ns: u64) {
        let across = &mut self.services.memory.across;
        if across.next_ns().is_none_or(|until| now_ns < until) {
            return;
        }
        for returned in across.unreturned.take(now_ns) {
            self.give_back_remote(returned);
        }
        let late = self.services.memory.across.asks.expire(now_ns);
        self.answer_waiters(late, Code::Unreachable);
    }
}

/// A request about the region of a handle as the node that has it is asked, by the handle there, and what
/// its answer is about. None where nobody of another node may ask it.
fn by_its_holder(
    request: MemoryRequest,
    handle: ObjectId,
    its: ObjectId,
) -> Option<(MemoryRequest, Wanted)> {
    use MemoryRequest::*;
    Some(match request {
        Free { .. } => (Free { handle: its }, Wanted::End(handle)),
        Locate { from, .. } => (Locate { handle: its, from }, Wanted::Of(handle)),
        Grow { bytes, .. } => (Grow { handle: its, bytes }, Wanted::Of(handle)),
        Name { name, others, .. } => (Name { handle: its, name, others }, Wanted::Answer),
        Appoint { user, rights, .. } => (Appoint { handle: its, user, rights }, Wanted::Answer),
        Lasting { lasting, .. } => (Lasting { handle: its, lasting }, Wanted::Answer),
        Move { node, .. } => (Move { handle: its, node }, Wanted::Answer),
        MemoryRequest::MoveState { .. } => {
            (MemoryRequest::MoveState { handle: its }, Wanted::Answer)
        }
        _ => return None,
    })
}
