//! Locks of other nodes: what this node's sessions ask of them, through their control planes.
//!
//! ```text
//! On node, or a handle or ticket there --> message to its control plane, the session waits --> answer
//!                                              '-- the node is lost, or does not answer: Unreachable
//! news of a ticket --> its session's bell --> Next, as for a ticket of this node
//! ```
//! An Unreachable has the limit 1 where the node may have done what was asked, or may still, else 0.

use heliostat_abi::code::Code;
use heliostat_abi::limits::CONTROL_DEADLINE_MS;
use heliostat_abi::lock::{Event, LockReply, LockRequest};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Bound, Reply};
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::PeerNode;
use heliostat_service_grant::Via;
use heliostat_service_lock::{RemoteHandle, RemoteTicket, Standing};

use super::requests::{reply, Who};
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};
use crate::state::asks::Waiter;
use crate::state::lock::across::{LockMessage, Wanted};

/// How long a session waits for another node: less than its program waits for this control plane.
const ANSWER_NS: u64 = (CONTROL_DEADLINE_MS - 100) * 1_000_000;

/// A node that does not do what it was asked, and whether it may have.
pub(super) fn unreachable(may_have_happened: bool) -> Refused {
    let limit = u64::from(may_have_happened);
    Refused { code: Code::Unreachable, limit, bound: Bound::NONE }
}

impl Daemon {
    /// A session asks another node for a name, or which there are.
    pub(super) fn ask_lock_node(
        &mut self,
        who: &Who,
        node: u64,
        request: LockRequest,
    ) -> Result<Answer, Refused> {
        let id = who.asker.session;
        self.services.lock.grants.check_session(id).map_err(refuse(id))?;
        if self.own_node() == Some(node) {
            return self.answer_lock_as(who, request);
        }
        let peer = self.joined_node(node).ok_or(unreachable(false))?;
        let wanted = match &request {
            LockRequest::Open { shape, .. } => Wanted::Handle(shape.kind),
            _ => Wanted::Answer,
        };
        if wanted != Wanted::Answer {
            self.services.lock.across.remotes.check_handle(id, who.asker.holder)?;
        }
        self.ask_lock_peer(who, peer, request, wanted)
    }

    /// A session asks something by a handle or ticket of another node.
    pub(super) fn ask_lock_holder(
        &mut self,
        who: &Who,
        request: LockRequest,
    ) -> Result<Answer, Refused> {
        let id = who.asker.session;
        self.services.lock.grants.check_session(id).map_err(refuse(id))?;
        match request {
            LockRequest::Close { handle } => self.close_elsewhere(who, handle),
            LockRequest::Acquire { handle, claim, wait } => {
                let there = self.handle_elsewhere(id, handle)?;
                self.services.lock.across.remotes.check_ticket(id, who.asker.holder)?;
                let request = LockRequest::Acquire { handle: there.there, claim, wait };
                self.ask_lock_via(who, there.via, request, Wanted::Ticket(handle))
            }
            LockRequest::Arrive { handle } => {
                let there = self.handle_elsewhere(id, handle)?;
                self.services.lock.across.remotes.check_ticket(id, who.asker.holder)?;
                let request = LockRequest::Arrive { handle: there.there };
                self.ask_lock_via(who, there.via, request, Wanted::Ticket(handle))
            }
            LockRequest::Reset { handle } => {
                let there = self.handle_elsewhere(id, handle)?;
                let request = LockRequest::Reset { handle: there.there };
                self.ask_lock_via(who, there.via, request, Wanted::Answer)
            }
            LockRequest::Release { ticket, untouched } => {
                self.release_elsewhere(who, ticket, untouched)
            }
            LockRequest::Cancel { ticket } => self.cancel_elsewhere(who, ticket),
            _ => Err(Code::BadRecord.into()),
        }
    }

    /// A handle of a session whose node is joined still.
    fn handle_elsewhere(&self, id: ObjectId, handle: ObjectId) -> Result<RemoteHandle, Refused> {
        let found = self.services.lock.across.remotes.handle(id, handle).ok_or(Code::NotFound)?;
        if found.is_lost {
            return Err(unreachable(false));
        }
        Ok(*found)
    }

    fn ticket_elsewhere(&self, id: ObjectId, ticket: ObjectId) -> Result<RemoteTicket, Refused> {
        let found = self.services.lock.across.remotes.ticket(id, ticket);
        Ok(*found.ok_or(Code::NotFound)?)
    }

    /// The program need not wait for the other node.
    fn close_elsewhere(&mut self, who: &Who, handle: ObjectId) -> Result<Answer, Refused> {
        let id = who.asker.session;
        let removed = self.services.lock.across.remotes.remove_handle(id, handle);
        let RemoteHandle { via, there, is_lost, .. } = removed.ok_or(Code::NotFound)?;
        if !is_lost {
            self.return_lock(
                id,
                who.uid,
                via,
                LockRequest::Close { handle: there },
                Wanted::Answer,
            );
        }
        Ok(Reply::Done.into())
    }

    fn release_elsewhere(
        &mut self,
        who: &Who,
        ticket: ObjectId,
        untouched: bool,
    ) -> Result<Answer, Refused> {
        let id = who.asker.session;
        let found = self.ticket_elsewhere(id, ticket)?;
        let remotes = &mut self.services.lock.across.remotes;
        match found.standing {
            Standing::Holds(_) => {
                remotes.remove_ticket(id, ticket);
                let request = LockRequest::Release { ticket: found.there, untouched };
                self.ask_lock_via(who, found.via, request, Wanted::Answer)
            }
            Standing::Lost => {
                remotes.remove_ticket(id, ticket);
                Err(unreachable(false))
            }
            _ => Err(Code::BadState.into()),
        }
    }

    fn cancel_elsewhere(&mut self, who: &Who, ticket: ObjectId) -> Result<Answer, Refused> {
        let id = who.asker.session;
        let found = self.ticket_elsewhere(id, ticket)?;
        let remotes = &mut self.services.lock.across.remotes;
        match found.standing {
            Standing::Waits => {
                remotes.set(id, ticket, Standing::Cancelled(None));
                let request = LockRequest::Cancel { ticket: found.there };
                self.ask_lock_via(who, found.via, request, Wanted::Cancelled(ticket))
            }
            // It was asked before, and the answer did not come in time.
            Standing::Cancelled(_) => Err(unreachable(true)),
            Standing::Holds(_) | Standing::Over(_) | Standing::Lost => {
                let event = remotes.told(id, ticket).ok_or(Code::NotFound)?;
                Ok(told(event))
            }
        }
    }

    fn ask_lock_via(
        &mut self,
        who: &Who,
        via: Via,
        request: LockRequest,
        wanted: Wanted,
    ) -> Result<Answer, Refused> {
        let peer = self.lock_peer(via).ok_or(unreachable(false))?;
        self.ask_lock_peer(who, peer, request, wanted)
    }

    /// Asks; the session waits.
    fn ask_lock_peer(
        &mut self,
        who: &Who,
        peer: PeerNode,
        request: LockRequest,
        wanted: Wanted,
    ) -> Result<Answer, Refused> {
        let session = who.asker.session;
        let process = self.session(session)?.pid();
        let sequence = self.answer_later_as(session).ok_or(Code::Internal)?;
        let until_ns = monotonic_ns().saturating_add(ANSWER_NS);
        let waiter = Some(Waiter { session, sequence, until_ns });
        let user = who.uid;
        self.post_lock(peer, LockMessage::Ask { session, user, process, request, wanted, waiter });
        // Not sent: `answer_later_as` says so.
        Ok(Reply::Done.into())
    }

    /// Gives something back that a node has granted; nobody waits.
    pub(super) fn return_lock(
        &mut self,
        session: ObjectId,
        user: u32,
        via: Via,
        request: LockRequest,
        wanted: Wanted,
    ) {
        let Some(peer) = self.lock_peer(via) else { return };
        let (process, waiter) = (0, None);
        self.post_lock(peer, LockMessage::Ask { session, user, process, request, wanted, waiter });
    }

    /// The node that has granted something, while the link stands by which it has.
    fn lock_peer(&self, via: Via) -> Option<PeerNode> {
        self.joined_node(via.node).filter(|peer| peer.link.0 == via.link)
    }
}

/// How a ticket stands, as an answer.
pub(super) fn told(event: Event) -> Answer {
    reply(&LockReply::Outcome(event))
}
