//! The state of the file service: leases, who holds them, and what each session has.
//!
//! Leases are grants (`heliostat_service_grant`): counted against a limit before they are made, so
//! that no sequence of requests grows a table. What is left of a broken lease is its file's pause, in a table that forgets.

use std::collections::HashMap;

use heliostat_abi::code::Thing;
use heliostat_abi::limits::LEASES_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Grants, Holder, Limit, Revoked, Shares};

use crate::key::FileKey;
use crate::pause::Pauses;
use crate::refusal::{Reason, Refusal};

/// How many leases there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Of one session.
    pub leases_per_session: usize,
    /// Of one user and of all together; never more than `LEASES_MAX` whatever stands here.
    pub leases: Shares,
}

/// What the daemon has to carry out, in order, before it sends the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Ask the kernel for the lease, then say `taken` or `not_taken`.
    TakeLease(ObjectId),
    /// The lease holds: its word is Active.
    Active(ObjectId),
    /// It was broken: its word is Revoked, and stays so.
    Revoked(ObjectId),
    /// Nobody holds it any more: its word is Free.
    Freed(ObjectId),
    /// Give the lease back to the kernel. Always after its word has changed.
    GiveBack(ObjectId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Taking,
    Active,
}

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) key: FileKey,
    pub(crate) stage: Stage,
}

/// How often a session was given a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times(pub(crate) u32);

impl Default for Times {
    fn default() -> Self {
        Times(1)
    }
}

/// The file service.
#[derive(Clone, Debug)]
pub struct File {
    pub(crate) leases: Grants<Lease, Times>,
    pub(crate) by_key: HashMap<FileKey, ObjectId>,
    pub(crate) pauses: Pauses,
    pub(crate) revoked: Revoked,
}

impl Limits {
    fn leases(&self) -> Limit {
        Limit { per_session: self.leases_per_session, shares: self.leases }
    }
}

impl File {
    /// A service that knows nobody yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            leases: Grants::new(Thing::Leases, LEASES_MAX, limits.leases()),
            by_key: HashMap::new(),
            pauses: Pauses::default(),
            revoked: Revoked::default(),
        }
    }

    /// New limits for what is asked from now on; what was granted stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.leases.set_limit(limits.leases());
    }

    /// A session asks for the lease on a file. The caller has checked the file and the rights.
    ///
    /// Who has it already gets the same one, and has it as often as it was given: each is ended by
    /// itself, so that files of one session that are under one lease need not know of each other.
    /// A lease counts against the share of whoever asked first.
    pub fn ask(
        &mut self,
        session: ObjectId,
        holder: Holder,
        key: FileKey,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.revoked.check(session)?;
        let known = self.by_key.get(&key).copied();
        if let Some(lease) = known.filter(|lease| self.leases.has(session, *lease)) {
            return self.join(session, lease);
        }
        self.leases.check(session)?;
        if let Some(lease) = known {
            return self.join(session, lease);
        }
        if let Some(left_ns) = self.pauses.left_ns(key, now_ns) {
            return Err(Reason::Pause { left_ns }.into());
        }
        self.begin(session, holder, key, effects)
    }

    fn join(&mut self, session: ObjectId, id: ObjectId) -> Result<ObjectId, Refusal> {
        let lease = self.leases.get(id).filter(|lease| lease.stage == Stage::Active);
        lease.ok_or(Reason::Taking { lease: id })?;
        match self.leases.get_held(session, id) {
            Some((_, times)) => times.0 = times.0.saturating_add(1),
            None => self.leases.share(session, id)?,
        }
        Ok(id)
    }

    fn begin(
        &mut self,
        session: ObjectId,
        holder: Holder,
        key: FileKey,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        let id = self.leases.grant(session, holder, Lease { key, stage: Stage::Taking })?;
        self.by_key.insert(key, id);
        effects.push(Effect::TakeLease(id));
        Ok(id)
    }

    /// The kernel granted the lease.
    pub fn taken(&mut self, id: ObjectId, effects: &mut Vec<Effect>) {
        if let Some(lease) = self.leases.get_mut(id) {
            lease.stage = Stage::Active;
            effects.push(Effect::Active(id));
        }
    }

    /// The kernel refused the lease.
    pub fn not_taken(&mut self, id: ObjectId) {
        if self.leases.get(id).is_some_and(|lease| lease.stage == Stage::Taking) {
            self.forget(id);
        }
    }

    /// Somebody waits in the kernel for the end of a lease.
    pub fn broken(&mut self, id: ObjectId, now_ns: u64, effects: &mut Vec<Effect>) {
        if self.leases.get(id).is_none_or(|lease| lease.stage == Stage::Taking) {
            return;
        }
        let Some(key) = self.forget(id) else { return };
        self.pauses.broken(key, now_ns);
        effects.extend([Effect::Revoked(id), Effect::GiveBack(id)]);
    }

    /// A session gives a lease back, once.
    pub fn end_lease(
        &mut self,
        session: ObjectId,
        id: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let held = self.leases.get_held(session, id);
        let (_, times) = held.ok_or(Reason::NotHeld { lease: id })?;
        times.0 -= 1;
        if times.0 == 0 {
            self.let_go(session, id, effects);
        }
        Ok(())
    }

    /// A session has a lease no more.
    fn let_go(&mut self, session: ObjectId, id: ObjectId, effects: &mut Vec<Effect>) {
        if self.leases.leave(session, id) == Some(0) {
            self.forget(id);
            effects.extend([Effect::Freed(id), Effect::GiveBack(id)]);
        }
    }

    /// Ends a session: it holds nothing any more.
    pub fn end(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        let leases: Vec<_> = self.leases.of(session).collect();
        leases.into_iter().for_each(|lease| self.let_go(session, lease, effects));
        self.revoked.forget(session);
    }

    /// Ends what the sessions hold; they get nothing new. Answers how many leases that were.
    ///
    /// There is one word for all who share a lease, so it ends for the others, too; they may ask
    /// again at once.
    pub fn revoke(&mut self, sessions: &[ObjectId], effects: &mut Vec<Effect>) -> usize {
        let mut count = 0;
        for session in sessions {
            self.revoked.insert(*session);
            let leases: Vec<_> = self.leases.of(*session).collect();
            for lease in leases {
                self.forget(lease);
                effects.extend([Effect::Revoked(lease), Effect::GiveBack(lease)]);
                count += 1;
            }
        }
        count
    }

    /// Takes a lease out of all tables.
    fn forget(&mut self, id: ObjectId) -> Option<FileKey> {
        let lease = self.leases.remove(id)?;
        self.by_key.remove(&lease.key);
        Some(lease.key)
    }
}
