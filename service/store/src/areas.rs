//! The state of the store service, and how areas begin.

use std::collections::{BTreeSet, HashMap};

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::limits::{AREAS_MAX, AREA_HANDLES_MAX};
use heliostat_abi::store::{AreaKind, AreaName, AreaRights, Way};
use heliostat_service_grant::{
    Full, Grants, Holder, Limit, Quota, QuotaTable, Rate, Revoked, Shares,
};

use crate::refusal::{Reason, Refusal};

/// How much there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Handles of one session.
    pub handles_per_session: usize,
    /// Handles of a user, and of the node.
    pub handles: Shares,
    /// Areas of a user, and of the node.
    pub areas: Shares,
    /// Bytes of areas of a user, and of the node.
    pub bytes: Shares,
    /// How fast the bytes of one area are read and written, unless somebody says another rate; nothing
    /// in a second is no limit.
    pub rate: Rate,
    /// Handles that may be direct at once.
    pub direct: usize,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The session.
    pub session: ObjectId,
    /// Whose share its things count against.
    pub holder: Holder,
    /// Its user.
    pub uid: u32,
    /// Whether it counts as its user; a restricted session is somebody else to that user's areas.
    pub is_user: bool,
}

/// What has a name: a user's area.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Key {
    /// The user.
    pub uid: u32,
    /// The name among those of this user.
    pub name: AreaName,
}

/// A request whose answer comes later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Who waits for it.
    pub session: ObjectId,
    /// The session's own number.
    pub number: u64,
}

/// An area to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its name among those of the asker's user.
    pub name: AreaName,
    /// Its size.
    pub bytes: u64,
    /// What it is for.
    pub kind: AreaKind,
    /// What other users may.
    pub others: AreaRights,
}

/// An area as the store has it, found when it was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// What names it in the store, for ever.
    pub generation: u64,
    /// Whose share it counts against.
    pub holder: Holder,
    /// Whose it is, and its name.
    pub key: Key,
    /// Its size.
    pub bytes: u64,
    /// What it is for.
    pub kind: AreaKind,
    /// What other users may.
    pub others: AreaRights,
}

/// What the store is to do with an area. It answers with [`Areas::done`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Make it.
    Create {
        /// Whose it is, and its name.
        key: Key,
        /// Its size.
        bytes: u64,
        /// What it is for.
        kind: AreaKind,
        /// What other users may.
        others: AreaRights,
    },
    /// Give it another size.
    Resize {
        /// Which.
        generation: u64,
        /// Its new size.
        bytes: u64,
    },
    /// Write down what other users may.
    Appoint {
        /// Which.
        generation: u64,
        /// What they may.
        others: AreaRights,
    },
    /// End it.
    Delete {
        /// Which.
        generation: u64,
    },
}

/// What a session is told that has waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    /// The area is there, or has changed.
    Area(ObjectId),
    /// It is gone.
    Gone,
}

/// What the caller has to do, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Have the store do this.
    Order(ObjectId, Order),
    /// Tell the loop of the session that it has a handle. Of a direct one no loop hears.
    Open {
        /// The session.
        session: ObjectId,
        /// The handle.
        handle: ObjectId,
        /// On which area.
        area: ObjectId,
        /// What it allows.
        rights: AreaRights,
    },
    /// Tell the loop of the session that it has the handle no longer. When nothing is under way by
    /// it, the loop answers with [`Areas::let_go`].
    Close {
        /// The session.
        session: ObjectId,
        /// The handle.
        handle: ObjectId,
    },
    /// Tell all loops that the area has so many bytes. If those are fewer than before, they answer with
    /// [`Areas::quiet`] when nothing is under way behind them; else nothing is answered.
    Bytes {
        /// The area.
        area: ObjectId,
        /// Its size.
        bytes: u64,
        /// Whether an answer is waited for.
        is_asked: bool,
    },
    /// Tell all loops how fast the area may be read and written.
    Rate(ObjectId, Rate),
    /// Answer a session that has waited.
    Answer(Question, Result<Answered, Refusal>),
}

/// What is going on with an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The store makes it.
    Making(Question),
    /// Nothing.
    Live,
    /// The loops are to leave what is cut off.
    Shrinking(Question, u64),
    /// The store gives it this size.
    Resizing(Question, u64),
    /// The store writes down what others may.
    Appointing(Question, AreaRights),
    /// The loops are to let go of its handles.
    Ending(Question),
    /// The store ends it.
    Deleting(Question),
}

#[derive(Clone, Debug)]
pub(crate) struct Area {
    pub(crate) key: Key,
    pub(crate) generation: u64,
    pub(crate) bytes: u64,
    pub(crate) kind: AreaKind,
    pub(crate) others: AreaRights,
    pub(crate) rate: Rate,
    pub(crate) stage: Stage,
    /// Until the loops have let go of them.
    pub(crate) handles: BTreeSet<ObjectId>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) area: ObjectId,
    pub(crate) rights: AreaRights,
    pub(crate) way: Way,
    /// Whether no other session may open the area to write it.
    pub(crate) alone: bool,
    pub(crate) is_closing: bool,
    /// Its session has ended, so that nobody waits for what is under way by it.
    pub(crate) is_left: bool,
}

/// The service.
#[derive(Clone, Debug)]
pub struct Areas {
    pub(crate) areas: QuotaTable<Area>,
    pub(crate) bytes: Quota,
    pub(crate) names: HashMap<Key, ObjectId>,
    pub(crate) handles: Grants<Handle>,
    pub(crate) revoked: Revoked,
    /// Handles that are direct, and how many may be.
    pub(crate) direct: (usize, usize),
    rate: Rate,
}

impl Areas {
    /// A service with the areas that the store has. They are there whatever the limits say, and count.
    pub fn new(limits: Limits, stored: Vec<Stored>) -> Areas {
        let whole = Shares::whole(u64::MAX);
        let mut service = Areas {
            areas: QuotaTable::new(AREAS_MAX, whole),
            bytes: Quota::new(whole),
            names: HashMap::new(),
            handles: Grants::new(Thing::AreaHandles, AREA_HANDLES_MAX, handle_limit(limits)),
            revoked: Revoked::default(),
            direct: (0, limits.direct),
            rate: limits.rate,
        };
        stored.into_iter().for_each(|area| service.restore(area));
        service.set_limits(limits);
        service
    }

    fn restore(&mut self, stored: Stored) {
        let Stored { generation, holder, key, bytes, kind, others } = stored;
        let (rate, stage, handles) = (self.rate, Stage::Live, BTreeSet::new());
        let area = Area { key: key.clone(), generation, bytes, kind, others, rate, stage, handles };
        // A store has no more areas than there are places.
        if let Ok(id) = self.areas.insert(holder, area) {
            self.bytes.take_anyway(holder, bytes);
            self.names.insert(key, id);
        }
    }

    /// New limits for what is asked from now on; what was granted stays. Rates are those of new areas.
    pub fn set_limits(&mut self, limits: Limits) {
        self.areas.set_shares(limits.areas);
        self.bytes.set_shares(limits.bytes);
        self.handles.set_limit(handle_limit(limits));
        self.direct.1 = limits.direct;
        self.rate = limits.rate;
    }

    /// The area that has a name now.
    pub fn resolve(&self, key: &Key) -> Option<ObjectId> {
        self.names.get(key).copied()
    }

    /// Has the store make an area of the asker's user; the answer comes later. The caller has checked
    /// the rights of the configuration.
    ///
    /// # Errors
    /// The name is taken, a limit is reached, or the session was revoked.
    pub fn create(
        &mut self,
        asker: &Asker,
        wanted: Wanted,
        number: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.revoked.check(asker.session)?;
        let Wanted { name, bytes, kind, others } = wanted;
        let key = Key { uid: asker.uid, name };
        if self.names.contains_key(&key) {
            return Err(Reason::NameTaken.into());
        }
        if bytes == 0 {
            return Err(Reason::Empty.into());
        }
        let shared = |exceeded| Full::shared(Thing::AreaBytes, exceeded);
        self.bytes.check(asker.holder, bytes).map_err(shared)?;
        let stage = Stage::Making(Question { session: asker.session, number });
        let (generation, rate, handles) = (0, self.rate, BTreeSet::new());
        let area = Area { key: key.clone(), generation, bytes, kind, others, rate, stage, handles };
        let inserted = self.areas.insert(asker.holder, area);
        let id = inserted.map_err(|exceeded| Full::shared(Thing::Areas, exceeded))?;
        self.bytes.take_anyway(asker.holder, bytes);
        self.names.insert(key.clone(), id);
        effects.push(Effect::Order(id, Order::Create { key, bytes, kind, others }));
        Ok(())
    }

    /// Forgets an area, of which nobody has anything any more.
    pub(crate) fn remove(&mut self, id: ObjectId) {
        let holder = self.areas.holder(id);
        if let (Some(holder), Some(area)) = (holder, self.areas.remove(id)) {
            self.bytes.give_back(holder, area.bytes);
            self.names.remove(&area.key);
        }
    }
}

fn handle_limit(limits: Limits) -> Limit {
    Limit { per_session: limits.handles_per_session, shares: limits.handles }
}
