//! Handles of sessions, counted against shares, and who may still touch bytes by them.

use std::collections::HashMap;

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use heliostat_service_grant::{Full, Holder, Quota, Shares};

/// Whose handle: session, and the handle in it.
pub(crate) type Whose = (ObjectId, ObjectId);

/// Who may touch the region's bytes by a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// The session itself, which maps the arenas.
    Direct,
    /// A server loop, until it says that it has let go.
    Loop,
    /// Nobody, or nobody any more.
    Nobody,
}

/// What a session has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) region: ObjectId,
    pub(crate) rights: Rights,
    pub(crate) hold: Hold,
    /// The region is gone.
    pub(crate) is_lost: bool,
    /// The session has given it back, and the loop has not let go yet.
    pub(crate) is_closing: bool,
}

/// The handles of one session.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) uid: u32,
    pub(crate) holder: Holder,
    pub(crate) is_served: bool,
    pub(crate) table: Table<Handle>,
}

/// All handles.
#[derive(Clone, Debug)]
pub(crate) struct Handles {
    sessions: HashMap<ObjectId, Held>,
    /// How many of them each user has.
    users: HashMap<u32, usize>,
    quota: Quota,
    per_session: usize,
}

impl Handles {
    pub(crate) fn new(per_session: usize, shares: Shares) -> Self {
        Self {
            sessions: HashMap::new(),
            users: HashMap::new(),
            quota: Quota::new(shares),
            per_session,
        }
    }

    pub(crate) fn set_limits(&mut self, per_session: usize, shares: Shares) {
        self.per_session = per_session;
        self.quota.set_shares(shares);
    }

    /// Refuses one more handle where there are as many as may be.
    pub(crate) fn check(&self, session: ObjectId, holder: Holder) -> Result<(), Full> {
        let has = self.sessions.get(&session).map_or(0, |held| held.table.len());
        if has >= self.per_session {
            return Err(self.too_many());
        }
        self.quota.check(holder, 1).map_err(|it| Full::shared(Thing::MemoryHandles, it))
    }

    fn too_many(&self) -> Full {
        Full::of(Thing::MemoryHandles, Side::Session, self.per_session as u64)
    }

    /// Knows a session from now on.
    pub(crate) fn meet(&mut self, session: ObjectId, uid: u32, holder: Holder) -> &mut Held {
        let limit = self.per_session;
        let users = &mut self.users;
        self.sessions.entry(session).or_insert_with(|| {
            *users.entry(uid).or_default() += 1;
            Held { uid, holder, is_served: false, table: Table::lean(limit) }
        })
    }

    /// Gives a session that is known a handle; the caller has checked that there is room.
    pub(crate) fn insert(&mut self, session: ObjectId, handle: Handle) -> Result<ObjectId, Full> {
        let too_many = self.too_many();
        let held = self.sessions.get_mut(&session).ok_or(too_many)?;
        self.quota.take(held.holder, 1).map_err(|it| Full::shared(Thing::MemoryHandles, it))?;
        held.table.insert(handle).map_err(|_| {
            self.quota.give_back(held.holder, 1);
            too_many
        })
    }

    /// Takes a handle out.
    pub(crate) fn remove(&mut self, (session, handle): Whose) -> Option<Handle> {
        let held = self.sessions.get_mut(&session)?;
        let removed = held.table.remove(handle)?;
        self.quota.give_back(held.holder, 1);
        Some(removed)
    }

    /// Forgets a session, and answers what it had.
    pub(crate) fn remove_session(&mut self, session: ObjectId) -> Option<Held> {
        let held = self.sessions.remove(&session)?;
        self.quota.give_back(held.holder, held.table.len() as u64);
        if let Some(count) = self.users.get_mut(&held.uid) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&held.uid);
            }
        }
        Some(held)
    }

    pub(crate) fn get(&self, (session, handle): Whose) -> Option<&Handle> {
        self.sessions.get(&session)?.table.get(handle)
    }

    pub(crate) fn get_mut(&mut self, (session, handle): Whose) -> Option<&mut Handle> {
        self.sessions.get_mut(&session)?.table.get_mut(handle)
    }

    pub(crate) fn session(&self, session: ObjectId) -> Option<&Held> {
        self.sessions.get(&session)
    }

    pub(crate) fn session_mut(&mut self, session: ObjectId) -> Option<&mut Held> {
        self.sessions.get_mut(&session)
    }

    /// Whether some session of a user is known.
    pub(crate) fn has_user(&self, uid: u32) -> bool {
        self.users.contains_key(&uid)
    }

    pub(crate) fn quota(&self) -> &Quota {
        &self.quota
    }
}
