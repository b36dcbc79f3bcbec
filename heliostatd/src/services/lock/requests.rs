//! Each request of a session, from its record to its answer.

use heliostat_abi::code::{Code, Thing};
use heliostat_abi::lock::name::OWN_USER;
use heliostat_abi::lock::{Event, LockName, LockReply, LockRequest, Outcome, Shape};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::rights::Right;
use heliostat_service_lock::{Asker, Effect, Key};
use tracing::debug;

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::refused::{full, refuse, Refused};
use crate::shown;

/// A reply of the lock service as an answer.
fn reply(reply: &LockReply) -> Answer {
    Reply::Own(Box::new(reply.encode())).into()
}

impl Daemon {
    /// Answers a request that was decoded.
    pub(super) fn answer_lock(
        &mut self,
        id: ObjectId,
        request: LockRequest,
        shown: Option<ReceivedFd>,
    ) -> Result<Answer, Refused> {
        self.session(id)?;
        let asker = Asker { session: id, holder: self.holder(id)? };
        let mut effects = Vec::new();
        let grants = &mut self.services.lock.grants;
        let answer = match request {
            LockRequest::Open { user, name, shape } => {
                return self.open_lock(&asker, user, name, shape)
            }
            LockRequest::List { user, from, beginning } => {
                return self.list_locks(id, user, from, &beginning)
            }
            LockRequest::Bell => return self.set_lock_bell(&asker, shown.ok_or(Code::BadRecord)?),
            LockRequest::Acquire { handle, claim, wait } => {
                grants.acquire(&asker, handle, claim, wait).map(|event| self.count_acquired(event))
            }
            LockRequest::Arrive { handle } => {
                grants.arrive(&asker, handle, &mut effects).map(|event| outcome(&event))
            }
            LockRequest::Cancel { ticket } => grants
                .cancel(id, ticket, &mut effects)
                .map(|event| event.map_or(Reply::Done.into(), |event| outcome(&event))),
            LockRequest::Next => {
                grants.next(id).map(|(events, more)| reply(&LockReply::Events { events, more }))
            }
            LockRequest::Close { handle } => done(grants.close(id, handle, &mut effects)),
            LockRequest::Release { ticket, untouched } => {
                done(grants.release(id, ticket, untouched, &mut effects))
            }
            LockRequest::Reset { handle } => done(grants.reset(id, handle, &mut effects)),
        };
        self.carry_out_lock(effects);
        answer.map_err(refuse(id))
    }

    fn open_lock(
        &mut self,
        asker: &Asker,
        user: u32,
        name: LockName,
        shape: Shape,
    ) -> Result<Answer, Refused> {
        let id = asker.session;
        let own = self.session(id)?.peer.subject.uid;
        let uid = if user == OWN_USER { own } else { user };
        self.check_right(id, Right::Acquire, &name, uid)?;
        let key = Key { uid, name };
        let opened = self.services.lock.grants.open(asker, key, shape, monotonic_ns());
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
    fn list_locks(
        &mut self,
        id: ObjectId,
        user: u32,
        from: u32,
        beginning: &str,
    ) -> Result<Answer, Refused> {
        let (sees_all, own) = (self.is_owner(id), self.session(id)?.peer.subject.uid);
        let sees = |uid: u32| (user == OWN_USER || uid == user) && (sees_all || uid == own);
        let grants = &self.services.lock.grants;
        let (locks, next) = grants.list(from, beginning, monotonic_ns(), sees);
        Ok(reply(&LockReply::Listed { locks, next }))
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
        let lock = &self.services.lock;
        effects.into_iter().for_each(|Effect::Ring(session)| lock.ring(session));
    }
}

fn outcome(event: &Event) -> Answer {
    reply(&LockReply::Outcome(*event))
}

fn done<E>(done: Result<(), E>) -> Result<Answer, E> {
    done.map(|()| Reply::Done.into())
}
