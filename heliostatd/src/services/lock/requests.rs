//! Each request of a session, from its record to its answer.

use heliostat_abi::code::{Code, Thing};
use heliostat_abi::lock::limits::EVENTS_PER_REPLY_MAX;
use heliostat_abi::lock::name::OWN_USER;
use heliostat_abi::lock::peer::place_elsewhere;
use heliostat_abi::lock::{Event, LockName, LockReply, LockRequest, Outcome, Shape};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_service_grant::is_of_peer;
use heliostat_service_lock::{Asker, Effect, Key};
use tracing::debug;

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::refused::{full, refuse, Refused};
use crate::shown;

/// Who asks: a session of this node, or one of another.
#[derive(Clone, Copy)]
pub(super) struct Who {
    /// The session, and whose share it has.
    pub asker: Asker,
    /// Its user.
    pub uid: u32,
    /// Whether it sees everybody's locks.
    pub sees_all: bool,
}

/// A reply of the lock service as an answer.
pub(super) fn reply(reply: &LockReply) -> Answer {
    Reply::Own(Box::new(reply.encode())).into()
}

impl Daemon {
    /// Answers a request of a session that was decoded.
    pub(super) fn answer_lock(
        &mut self,
        id: ObjectId,
        request: LockRequest,
        shown: Option<ReceivedFd>,
    ) -> Result<Answer, Refused> {
        let uid = self.session(id)?.peer.subject.uid;
        let asker = Asker { session: id, holder: self.holder(id)? };
        let who = Who { asker, uid, sees_all: self.is_owner(id) && !self.is_restricted(id) };
        match request {
            LockRequest::Bell => self.set_lock_bell(&asker, shown.ok_or(Code::BadRecord)?),
            LockRequest::Next => self.next_of_locks(id),
            LockRequest::On { node, request } => self.ask_lock_node(&who, node, *request),
            request if is_elsewhere(&request) => self.ask_lock_holder(&who, request),
            request => self.answer_lock_as(&who, request),
        }
    }

    /// Answers a request about what is on this node.
    pub(super) fn answer_lock_as(
        &mut self,
        who: &Who,
        request: LockRequest,
    ) -> Result<Answer, Refused> {
        let (id, asker) = (who.asker.session, &who.asker);
        let mut effects = Vec::new();
        let grants = &mut self.services.lock.grants;
        let answer = match request {
            LockRequest::Open { user, name, shape } => {
                return self.open_lock(who, user, name, shape)
            }
            LockRequest::List { user, from, beginning } => {
                return Ok(self.list_locks(who, user, from, &beginning))
            }
            LockRequest::Acquire { handle, claim, wait } => {
                grants.acquire(asker, handle, claim, wait).map(|event| self.count_acquired(event))
            }
            LockRequest::Arrive { handle } => {
                grants.arrive(asker, handle, &mut effects).map(|event| outcome(&event))
            }
            LockRequest::Cancel { ticket } => grants
                .cancel(id, ticket, &mut effects)
                .map(|event| event.map_or(Reply::Done.into(), |event| outcome(&event))),
            LockRequest::Close { handle } => done(grants.close(id, handle, &mut effects)),
            LockRequest::Release { ticket, untouched } => {
                done(grants.release(id, ticket, untouched, &mut effects))
            }
            LockRequest::Reset { handle } => done(grants.reset(id, handle, &mut effects)),
            // They are of sessions of this node, or of names.
            LockRequest::Next | LockRequest::Bell | LockRequest::On { .. } => {
                return Err(Code::BadRecord.into())
            }
        };
        self.carry_out_lock(effects);
        answer.map_err(refuse(id))
    }

    /// What became of a session's tickets, on this node and on others.
    fn next_of_locks(&mut self, id: ObjectId) -> Result<Answer, Refused> {
        let lock = &mut self.services.lock;
        let (mut events, more) = lock.grants.next(id).map_err(refuse(id))?;
        let room = EVENTS_PER_REPLY_MAX - events.len();
        let (others, more_there) = lock.across.remotes.next(id, room);
        events.extend(others);
        Ok(reply(&LockReply::Events { events, more: more || more_there }))
    }

    fn open_lock(
        &mut self,
        who: &Who,
        user: u32,
        name: LockName,
        shape: Shape,
    ) -> Result<Answer, Refused> {
        let id = who.asker.session;
        let uid = if user == OWN_USER { who.uid } else { user };
        self.check_lock_right(who, &name, uid)?;
        let key = Key { uid, name };
        let opened = self.services.lock.grants.open(&who.asker, key, shape, monotonic_ns());
        let (handle, lock) = opened.map_err(refuse(id))?;
        Ok(reply(&LockReply::Opened { handle, lock }))
    }

    /// A session shows where it is to be rung.
    fn set_lock_bell(&mut self, asker: &Asker, shown: ReceivedFd) -> Result<Answer, Refused> {
        let id = asker.session;
        if !shown::is_bell(&shown) {
            debug!(session = %id, "no bell: only a unix socket can be rung without waiting");
            return Err(Code::BadRecord.into());
        }
        let lock = &mut self.services.lock;
        // It may be shown for a session that has events already, or was revoked.
        let is_news = lock.grants.has_news(id).map_err(refuse(id))?;
        let is_news = is_news || lock.across.remotes.has_news(id);
        if !lock.has_bell(id) {
            lock.quota.check(asker.holder, 1).map_err(|it| full(Thing::LockBells, it))?;
        }
        lock.set_bell(id, asker.holder, shown);
        if is_news {
            lock.ring(id);
        }
        Ok(Reply::Done.into())
    }

    /// Some of the locks that the asker may see: its own user's, to root and the owner everybody's.
    fn list_locks(&self, who: &Who, user: u32, from: u32, beginning: &str) -> Answer {
        let (sees_all, own) = (who.sees_all, who.uid);
        let sees = |uid: u32| (user == OWN_USER || uid == user) && (sees_all || uid == own);
        let grants = &self.services.lock.grants;
        let (locks, next) = grants.list(from, beginning, monotonic_ns(), sees);
        reply(&LockReply::Listed { locks, next })
    }

    fn count_acquired(&mut self, event: Event) -> Answer {
        let lock = &mut self.services.lock;
        lock.acquired += u64::from(event.outcome != Outcome::Busy);
        lock.waited += u64::from(event.outcome == Outcome::Queued);
        outcome(&event)
    }

    /// Carries out what was decided. Each session is rung once: a barrier may let thousands of its
    /// tickets go on at once.
    pub(super) fn carry_out_lock(&mut self, mut effects: Vec<Effect>) {
        effects.sort_unstable();
        effects.dedup();
        let mut foreign = Vec::new();
        for Effect::Ring(session) in effects {
            if is_of_peer(session) {
                foreign.push(session);
            } else {
                self.services.lock.ring(session);
            }
        }
        self.tell_foreign(foreign);
    }
}

/// Whether a request names a handle or ticket of another node.
fn is_elsewhere(request: &LockRequest) -> bool {
    match request {
        LockRequest::Close { handle: id }
        | LockRequest::Acquire { handle: id, .. }
        | LockRequest::Arrive { handle: id }
        | LockRequest::Reset { handle: id }
        | LockRequest::Release { ticket: id, .. }
        | LockRequest::Cancel { ticket: id } => place_elsewhere(*id).is_some(),
        _ => false,
    }
}

fn outcome(event: &Event) -> Answer {
    reply(&LockReply::Outcome(*event))
}

fn done<E>(done: Result<(), E>) -> Result<Answer, E> {
    done.map(|()| Reply::Done.into())
}
