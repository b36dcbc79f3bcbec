//! Answers of other nodes about locks, those that come in vain, and what ends with a session or a link.
//!
//! What a node has granted and nobody waits for any more is given back at once. Where it is not known
//! what a node has done for a session, all that the session has there is ended: nothing stays held that
//! nobody knows of.

use heliostat_abi::code::Code;
use heliostat_abi::lock::peer::PeerReply;
use heliostat_abi::lock::{Event, LockReply, LockRequest, Outcome};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Bound, Reply};
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{CallFailure, Effect, Outcome as CallOutcome, PeerNode};
use heliostat_service_grant::Via;
use heliostat_service_lock::{fits, RemoteHandle, Standing};
use tracing::debug;

use super::elsewhere::{told, unreachable};
use super::requests::reply;
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::Refused;
use crate::services::cluster::via;
use crate::state::asks::Waiter;
use crate::state::lock::across::{gives_back, GivenUp, LockMessage, Wanted};

/// A request whose answer has come: of whom, and what it was.
struct AskedThere {
    peer: PeerNode,
    session: ObjectId,
    user: u32,
    request: LockRequest,
    wanted: Wanted,
    waiter: Option<Waiter>,
}

impl AskedThere {
    fn via(&self) -> Via {
        via(self.peer)
    }
}

/// An answer that is none: it says nothing of what the node has done.
struct Nonsense;

type Settled = Result<Result<Answer, Refused>, Nonsense>;

impl Daemon {
    /// Another node has answered, or will not.
    pub(super) fn take_lock_answer(&mut self, token: u64, outcome: CallOutcome) {
        let across = &mut self.services.lock.across;
        let Some(link) = across.end_token(token) else { return };
        let Some((peer, outbox)) = across.outboxes.get_mut(&link) else { return };
        let peer = *peer;
        if let Some((on_the_way @ Some(_), _)) = &mut outbox.news {
            if *on_the_way == Some(token) {
                if outcome.is_ok() {
                    outbox.news = None;
                    return self.send_lock_news(peer);
                }
                *on_the_way = None;
                return outbox.retry(monotonic_ns());
            }
        }
        match outbox.on_the_way.remove(&token) {
            Some(LockMessage::Ask { session, user, request, wanted, waiter, .. }) => {
                let asked = AskedThere { peer, session, user, request, wanted, waiter };
                self.settle_lock(asked, outcome);
            }
            Some(LockMessage::End(session)) if outcome.is_err() => {
                outbox.queue.push_back(LockMessage::End(session));
                outbox.retry(monotonic_ns());
            }
            _ => {}
        }
        if let Some((_, outbox)) = self.services.lock.across.outboxes.get_mut(&link) {
            outbox.forget_early();
        }
        self.send_lock_messages(peer);
    }

    fn settle_lock(&mut self, asked: AskedThere, outcome: CallOutcome) {
        let waiter = asked.waiter;
        let answer = match outcome {
            Ok(found) => match PeerReply::decode(&found.header, &found.payload) {
                Ok(reply) => self.settle_lock_reply(&asked, reply),
                Err(_) => Err(Nonsense),
            },
            Err(error) => {
                debug!(%error, "another node has not answered");
                let is_lost = matches!(error.why, CallFailure::Lost(_));
                match error.effect {
                    Effect::Unknown if is_lost => Ok(Err(unreachable(true))),
                    Effect::Unknown => Err(Nonsense),
                    _ => Ok(Err(self.lock_not_done(&asked))),
                }
            }
        };
        let answer = answer.unwrap_or_else(|Nonsense| {
            self.doubt_locks(&asked);
            Err(unreachable(true))
        });
        if let Some(Waiter { session, sequence, .. }) = waiter {
            self.answer_late_to(session, sequence, answer);
        }
    }

    /// The node has not done it. What gives something back is asked again.
    fn lock_not_done(&mut self, asked: &AskedThere) -> Refused {
        if !gives_back(&asked.request) {
            return unreachable(false);
        }
        let AskedThere { session, user, wanted, .. } = *asked;
        let (process, waiter, request) = (0, None, asked.request.clone());
        if let Some((_, outbox)) = self.services.lock.across.outboxes.get_mut(&asked.peer.link.0) {
            outbox.retry(monotonic_ns());
            let again = LockMessage::Ask { session, user, process, request, wanted, waiter };
            outbox.queue.push_back(again);
        }
        unreachable(true)
    }

    /// Nobody knows what the node has done for the session: all that it has there ends.
    fn doubt_locks(&mut self, asked: &AskedThere) {
        if matches!(asked.request, LockRequest::List { .. }) {
            return;
        }
        debug!(node = %asked.peer.node, session = %asked.session, "what it has there is in doubt");
        let lock = &mut self.services.lock;
        let rung = lock.across.remotes.lose(asked.via(), Some(asked.session));
        rung.into_iter().for_each(|session| lock.ring(session));
        self.post_lock(asked.peer, LockMessage::End(asked.session));
    }

    fn settle_lock_reply(&mut self, asked: &AskedThere, found: PeerReply) -> Settled {
        let own = match found {
            PeerReply::Refused { code, limit, bound } => {
                return Ok(self.lock_refused_there(asked, code, limit, bound))
            }
            PeerReply::Done => {
                return match asked.wanted {
                    Wanted::Handle(_) | Wanted::Ticket(_) => Err(Nonsense),
                    Wanted::Cancelled(ticket) => {
                        self.services.lock.across.remotes.remove_ticket(asked.session, ticket);
                        Ok(Ok(Reply::Done.into()))
                    }
                    Wanted::Answer if matches!(asked.request, LockRequest::List { .. }) => {
                        Err(Nonsense)
                    }
                    Wanted::Return(_) | Wanted::Answer => Ok(Ok(Reply::Done.into())),
                };
            }
            PeerReply::Own { reply, .. } => LockReply::decode(&reply).map_err(|_| Nonsense)?,
        };
        match (asked.wanted, own) {
            (Wanted::Answer, LockReply::Listed { locks, next })
                if matches!(asked.request, LockRequest::List { .. }) =>
            {
                Ok(Ok(reply(&LockReply::Listed { locks, next })))
            }
            (Wanted::Handle(kind), LockReply::Opened { handle, lock }) => {
                let handle = RemoteHandle { via: asked.via(), there: handle, kind, is_lost: false };
                Ok(self.take_lock_handle(asked, handle, lock))
            }
            (Wanted::Ticket(handle), LockReply::Outcome(event)) => {
                self.take_lock_ticket(asked, handle, event)
            }
            (Wanted::Cancelled(ticket), LockReply::Outcome(event)) => {
                self.take_lock_cancelled(asked, ticket, event)
            }
            (Wanted::Return(there), LockReply::Outcome(event)) => {
                if matches!(event.outcome, Outcome::Granted { .. }) {
                    self.release_lock_there(asked, there);
                }
                Ok(Ok(Reply::Done.into()))
            }
            _ => Err(Nonsense),
        }
    }

    /// A refusal of the node. A ticket that it does not know any more was over before it was cancelled.
    fn lock_refused_there(
        &mut self,
        asked: &AskedThere,
        code: Code,
        limit: u64,
        bound: Bound,
    ) -> Result<Answer, Refused> {
        if let Wanted::Cancelled(ticket) = asked.wanted {
            let removed = self.services.lock.across.remotes.remove_ticket(asked.session, ticket);
            if let Some(Standing::Cancelled(Some(outcome))) = removed.map(|it| it.standing) {
                return Ok(told(Event { ticket, outcome }));
            }
            if code == Code::NotFound {
                // Its session has nothing there any more: nobody knows how it ended.
                return Err(unreachable(true));
            }
        }
        Err(match code {
            Code::Full => Refused { code, limit, bound },
            // Nothing was revoked there, and whether that control plane fails is its own matter.
            Code::BadRecord | Code::BadState | Code::NotFound | Code::Denied => code.into(),
            _ => unreachable(false),
        })
    }

    fn take_lock_handle(
        &mut self,
        asked: &AskedThere,
        handle: RemoteHandle,
        lock: ObjectId,
    ) -> Result<Answer, Refused> {
        let taken = match asked.waiter {
            Some(_) => self.holder(asked.session).and_then(|holder| {
                let remotes = &mut self.services.lock.across.remotes;
                Ok(remotes.add_handle(asked.session, holder, handle)?)
            }),
            None => Err(unreachable(true)),
        };
        match taken {
            Ok(handle) => Ok(reply(&LockReply::Opened { handle, lock })),
            Err(refused) => {
                let close = LockRequest::Close { handle: handle.there };
                let AskedThere { session, user, .. } = *asked;
                self.return_lock(session, user, asked.via(), close, Wanted::Answer);
                Err(refused)
            }
        }
    }

    /// A ticket that was given, or the end of what needs none.
    fn take_lock_ticket(&mut self, asked: &AskedThere, handle: ObjectId, event: Event) -> Settled {
        let (session, there, outcome) = (asked.session, event.ticket, event.outcome);
        let across = &mut self.services.lock.across;
        let early = across.outboxes.get_mut(&asked.peer.link.0);
        let early = early.and_then(|(_, outbox)| outbox.take_early(there));
        let kind = across.remotes.handle(session, handle).map(|handle| handle.kind);
        if outcome != Outcome::Queued && kind.is_some_and(|kind| !fits(kind, outcome)) {
            return match outcome {
                Outcome::Busy => Ok(Ok(told(Event { ticket: ObjectId::default(), outcome }))),
                _ => Err(Nonsense),
            };
        }
        let stands = match outcome {
            Outcome::Queued => Standing::Waits,
            Outcome::Granted { .. } => Standing::Holds(outcome),
            // It has no ticket.
            _ => return Ok(Ok(told(Event { ticket: ObjectId::default(), outcome }))),
        };
        let taken = match asked.waiter {
            Some(_) => across.remotes.add_ticket(session, handle, there, stands),
            None => Ok(None),
        };
        if let Ok(Some(ticket)) = taken {
            let rung = early.and_then(|it| across.remotes.hear(asked.peer.link.0, there, it));
            rung.into_iter().for_each(|session| self.services.lock.ring(session));
            return Ok(Ok(told(Event { ticket, outcome })));
        }
        match outcome {
            Outcome::Queued => {
                let AskedThere { user, .. } = *asked;
                let cancel = LockRequest::Cancel { ticket: there };
                self.return_lock(session, user, asked.via(), cancel, Wanted::Return(there));
            }
            _ => self.release_lock_there(asked, there),
        }
        Ok(Err(taken.err().map_or(unreachable(true), Refused::from)))
    }

    /// A ticket had got what it waited for before it was cancelled.
    fn take_lock_cancelled(
        &mut self,
        asked: &AskedThere,
        ticket: ObjectId,
        event: Event,
    ) -> Settled {
        let (session, outcome) = (asked.session, event.outcome);
        let remotes = &mut self.services.lock.across.remotes;
        let Some(found) = remotes.ticket(session, ticket).copied() else {
            return Ok(Err(unreachable(true)));
        };
        if !fits(found.kind, outcome) {
            return Err(Nonsense);
        }
        if matches!(outcome, Outcome::Granted { .. }) {
            if asked.waiter.is_some() {
                remotes.set(session, ticket, Standing::Holds(outcome));
                return Ok(Ok(told(Event { ticket, outcome })));
            }
            self.release_lock_there(asked, found.there);
        }
        self.services.lock.across.remotes.remove_ticket(session, ticket);
        Ok(Ok(told(Event { ticket, outcome })))
    }

    /// Releases what nobody wants; who died before is told to the next one.
    fn release_lock_there(&mut self, asked: &AskedThere, there: ObjectId) {
        let release = LockRequest::Release { ticket: there, untouched: true };
        self.return_lock(asked.session, asked.user, asked.via(), release, Wanted::Answer);
    }

    /// A session has ended, or was revoked: the nodes where it has something are told.
    pub(super) fn end_lock_elsewhere(&mut self, session: ObjectId) {
        let across = &mut self.services.lock.across;
        let given_up = across.give_up(|waiter| waiter.session == session);
        let mut links: Vec<_> = across.remotes.end(session).iter().map(|via| via.link).collect();
        links.extend(across.links_of(session));
        links.sort_unstable();
        links.dedup();
        for link in links {
            let peer = self.services.lock.across.outboxes.get(&link).map(|(peer, _)| *peer);
            peer.into_iter().for_each(|peer| self.post_lock(peer, LockMessage::End(session)));
        }
        for GivenUp { waiter, .. } in given_up {
            self.answer_late_to(waiter.session, waiter.sequence, Err(Code::Revoked.into()));
        }
    }

    /// A session that waits for another node has asked something else, or has gone; whether it waited.
    pub(crate) fn give_up_lock_waiting(&mut self, session: ObjectId) -> bool {
        let given_up = self.services.lock.across.give_up(|waiter| waiter.session == session);
        let has_waited = !given_up.is_empty();
        self.tell_given_up(given_up);
        has_waited
    }

    fn tell_given_up(&mut self, given_up: Vec<GivenUp>) {
        for GivenUp { waiter, is_sent } in given_up {
            self.answer_late_to(waiter.session, waiter.sequence, Err(unreachable(is_sent)));
        }
    }

    /// Answers those that have waited long enough for another node, and sends what found no room.
    pub(crate) fn end_late_lock_asks(&mut self, now_ns: u64) {
        if self.services.lock.across.next_ns().is_none_or(|at| now_ns < at) {
            return;
        }
        let given_up = self.services.lock.across.give_up(|waiter| waiter.until_ns <= now_ns);
        self.tell_given_up(given_up);
        self.send_lock_again(now_ns);
    }

    /// A node is lost: what was granted by it, or waited there, is so no more.
    pub(super) fn lose_lock_node(&mut self, peer: PeerNode) {
        let lock = &mut self.services.lock;
        let outbox = lock.across.lose(peer.link.0);
        let rung = lock.across.remotes.lose(via(peer), None);
        debug!(node = %peer.node, sessions = rung.len(), "tickets at a node that is lost");
        rung.into_iter().for_each(|session| lock.ring(session));
        let Some(outbox) = outbox else { return };
        let unsent = outbox.queue.into_iter().map(|message| (message, false));
        let sent = outbox.on_the_way.into_values().map(|message| (message, true));
        for (message, is_sent) in unsent.chain(sent) {
            if let LockMessage::Ask { waiter: Some(waiter), .. } = message {
                self.tell_given_up(vec![GivenUp { waiter, is_sent }]);
            }
        }
    }
}
