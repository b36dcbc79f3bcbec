//! The state of the file service: leases, who holds them, and what each session has.
//!
//! Everything is counted against a limit before it is made, so that no sequence of requests grows
//! a table. What is left of a broken lease is its file's pause, in a table that forgets.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::limits::LEASES_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::quota::{Exceeded, Holder, QuotaTable, Shares};
use heliostat_abi::record::Bound;

use crate::pause::Pauses;
use crate::refusal::Refusal;

/// A file, by the kernel's numbers. Both stay its own as long as somebody has it open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct FileKey {
    /// Device (st_dev).
    pub device: u64,
    /// Inode (st_ino).
    pub inode: u64,
}

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
    /// Who has it, and how often.
    pub(crate) holders: BTreeMap<ObjectId, u32>,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Held {
    pub(crate) leases: BTreeSet<ObjectId>,
    pub(crate) revoked: bool,
}

/// The file service.
#[derive(Clone, Debug)]
pub struct File {
    pub(crate) limits: Limits,
    pub(crate) leases: QuotaTable<Lease>,
    pub(crate) by_key: HashMap<FileKey, ObjectId>,
    pub(crate) held: HashMap<ObjectId, Held>,
    pub(crate) pauses: Pauses,
}

impl File {
    /// A service that knows nobody yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            leases: QuotaTable::new(LEASES_MAX, limits.leases),
            by_key: HashMap::new(),
            held: HashMap::new(),
            pauses: Pauses::default(),
        }
    }

    /// New limits for what is asked from now on; what was granted stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.leases.set_shares(limits.leases);
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
        let held = self.held.get(&session);
        if held.is_some_and(|held| held.revoked) {
            return Err(Refusal::Revoked);
        }
        let known = self.by_key.get(&key).copied();
        if known.is_some_and(|lease| held.is_some_and(|held| held.leases.contains(&lease))) {
            return self.join(session, known.unwrap_or_default());
        }
        let limit = self.limits.leases_per_session;
        if held.map_or(0, |held| held.leases.len()) >= limit {
            let bound = Bound::new(Thing::Leases, Side::Session);
            return Err(Refusal::Full { bound, limit: limit as u64 });
        }
        if let Some(lease) = known {
            return self.join(session, lease);
        }
        if let Some(left_ns) = self.pauses.left_ns(key, now_ns) {
            return Err(Refusal::Pause { left_ns });
        }
        self.begin(session, holder, key, effects)
    }

    fn join(&mut self, session: ObjectId, id: ObjectId) -> Result<ObjectId, Refusal> {
        let lease = self.leases.get_mut(id).filter(|lease| lease.stage == Stage::Active);
        let lease = lease.ok_or(Refusal::Taking { lease: id })?;
        let times = lease.holders.entry(session).or_default();
        *times = times.saturating_add(1);
        self.held.entry(session).or_default().leases.insert(id);
        Ok(id)
    }

    fn begin(
        &mut self,
        session: ObjectId,
        holder: Holder,
        key: FileKey,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        let lease = Lease { key, stage: Stage::Taking, holders: BTreeMap::from([(session, 1)]) };
        let id = self.leases.insert(holder, lease).map_err(exceeded)?;
        self.by_key.insert(key, id);
        self.held.entry(session).or_default().leases.insert(id);
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
        let not_held = Refusal::NotHeld { lease: id };
        let lease = self.leases.get_mut(id).ok_or(not_held)?;
        let times = lease.holders.get_mut(&session).ok_or(not_held)?;
        *times -= 1;
        if *times == 0 {
            self.let_go(session, id, effects);
        }
        Ok(())
    }

    /// A session has a lease no more.
    fn let_go(&mut self, session: ObjectId, id: ObjectId, effects: &mut Vec<Effect>) {
        if let Some(held) = self.held.get_mut(&session) {
            held.leases.remove(&id);
        }
        let Some(lease) = self.leases.get_mut(id) else { return };
        lease.holders.remove(&session);
        if lease.holders.is_empty() {
            self.forget(id);
            effects.extend([Effect::Freed(id), Effect::GiveBack(id)]);
        }
    }

    /// Ends a session: it holds nothing any more.
    pub fn end(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        self.end_all_of(session, effects);
        self.held.remove(&session);
    }

    /// Ends what the sessions hold; they get nothing new. Answers how many leases that were.
    ///
    /// There is one word for all who share a lease, so it ends for the others, too; they may ask
    /// again at once.
    pub fn revoke(&mut self, sessions: &[ObjectId], effects: &mut Vec<Effect>) -> usize {
        let mut count = 0;
        for session in sessions {
            let held = self.held.entry(*session).or_default();
            held.revoked = true;
            for lease in std::mem::take(&mut held.leases) {
                self.forget(lease);
                effects.extend([Effect::Revoked(lease), Effect::GiveBack(lease)]);
                count += 1;
            }
        }
        count
    }

    fn end_all_of(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        let leases = self.held.get(&session).map(|held| held.leases.clone()).unwrap_or_default();
        for lease in leases {
            self.let_go(session, lease, effects);
        }
    }

    /// Takes a lease out of all tables.
    fn forget(&mut self, id: ObjectId) -> Option<FileKey> {
        let lease = self.leases.remove(id)?;
        self.by_key.remove(&lease.key);
        for session in lease.holders.into_keys() {
            if let Some(held) = self.held.get_mut(&session) {
                held.leases.remove(&id);
            }
        }
        Some(lease.key)
    }
}

fn exceeded(it: Exceeded) -> Refusal {
    Refusal::Full { bound: Bound::new(Thing::Leases, it.side), limit: it.limit }
}
