//! The state of the memory service, and how regions begin.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::memory::limits::REGIONS_MAX;
use heliostat_abi::memory::page::State;
use heliostat_abi::memory::{Allocation, MemoryName, Piece, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use heliostat_service_grant::{Full, Holder, Quota, Revoked, Shares};

use crate::arenas::{grains, Arenas, Room};
use crate::asker::Asker;
use crate::forwards::Forwards;
use crate::handles::{Handle, Handles, Hold, Whose};
use crate::holders::Holders;
use crate::key::Key;
use crate::moves::{MoveEnd, Moving};
use crate::questions::Questions;
use crate::refusal::{Reason, Refusal};

/// Users that one region names beside its own.
pub const APPOINTED_MAX: usize = 64;

/// The epoch in the word of a region that is gone. No other word has it: a region begins with 1.
pub(crate) const GONE: u32 = 0;

/// How much there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Length of an arena that regions share.
    pub arena_bytes: u64,
    /// Handles of one session.
    pub handles_per_session: usize,
    /// Handles of a user, and of the node.
    pub handles: Shares,
    /// Regions of a user, and of the node.
    pub regions: Shares,
    /// Bytes of regions of a user, and of the node.
    pub bytes: Shares,
    /// Arenas of a user, and of the node.
    pub arenas: Shares,
}

/// What the caller has to do, in order, before it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Write the region's word.
    Word(ObjectId, State, u32),
    /// Nobody has these bytes any more: they become zeros before anybody gets them.
    Erase(Piece),
    /// Close the arena.
    ArenaGone(ObjectId),
    /// Tell the loop that serves the session of this handle.
    Open {
        /// The session.
        session: ObjectId,
        /// The handle.
        handle: ObjectId,
    },
    /// Tell it that the handle was given back; it answers when it has let go, see `let_go`.
    Close {
        /// The session.
        session: ObjectId,
        /// The handle.
        handle: ObjectId,
    },
    /// Tell the loop that serves the session where the region lies now.
    Place {
        /// The session.
        session: ObjectId,
        /// The region.
        region: ObjectId,
    },
    /// Tell it that the region's word is no longer live; it answers when it touches nothing of the
    /// region, see `left`.
    Leave {
        /// The session.
        session: ObjectId,
        /// The region.
        region: ObjectId,
        /// Which word that is: the answer names it.
        epoch: u32,
    },
    /// Nobody is in a region that moves: copy its bytes, see `copy_plan` and `copied`.
    Copy(ObjectId),
    /// Nobody here manages a region any more that has left for another node.
    Unmanaged(ObjectId),
    /// Ring the bell of a session that is asked.
    Ring(ObjectId),
}

#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) uid: u32,
    pub(crate) holder: Holder,
    pub(crate) bytes: u64,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) epoch: u32,
    pub(crate) lasting: bool,
    pub(crate) name: Option<MemoryName>,
    pub(crate) others: Rights,
    pub(crate) appointed: BTreeMap<u32, Rights>,
    /// Handles on it, those among them that a loop has not let go of.
    pub(crate) handles: Holders,
    /// Of these, those that may manage it.
    pub(crate) managers: usize,
    pub(crate) since_ns: u64,
    /// Who answers for it.
    pub(crate) judge: Option<ObjectId>,
    /// It is on its way to other pieces.
    pub(crate) moving: Option<Box<Moving>>,
    /// How that ended the last time.
    pub(crate) moved: MoveEnd,
    /// It is to be what another node's region is that moves here; nobody else sees it yet.
    pub(crate) is_staged: bool,
}

/// A region that is gone, while somebody may still touch its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Retired {
    pub(crate) holder: Holder,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) holds: Holders,
}

/// The memory service.
#[derive(Clone, Debug)]
pub struct Memory {
    pub(crate) regions: Table<Region>,
    pub(crate) retired: HashMap<ObjectId, Retired>,
    pub(crate) names: HashMap<Key, ObjectId>,
    pub(crate) arenas: Arenas,
    pub(crate) handles: Handles,
    /// Handles of sessions that have ended, which a loop has not let go of.
    pub(crate) leaving: BTreeMap<Whose, ObjectId>,
    /// Regions that are on their way to other pieces.
    pub(crate) moving: BTreeSet<ObjectId>,
    /// Where regions are that have left.
    pub(crate) forwards: Forwards,
    pub(crate) region_quota: Quota,
    pub(crate) byte_quota: Quota,
    pub(crate) questions: Questions,
    pub(crate) revoked: Revoked,
}

impl Memory {
    /// A service that knows nobody yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            regions: Table::lean(REGIONS_MAX),
            retired: HashMap::new(),
            names: HashMap::new(),
            arenas: Arenas::new(limits.arena_bytes, limits.arenas),
            handles: Handles::new(limits.handles_per_session, limits.handles),
            leaving: BTreeMap::new(),
            moving: BTreeSet::new(),
            forwards: Forwards::default(),
            region_quota: Quota::new(limits.regions),
            byte_quota: Quota::new(limits.bytes),
            questions: Questions::default(),
            revoked: Revoked::default(),
        }
    }

    /// New limits for what is asked from now on; what was granted stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.arenas.set_limits(limits.arena_bytes, limits.arenas);
        self.handles.set_limits(limits.handles_per_session, limits.handles);
        self.region_quota.set_shares(limits.regions);
        self.byte_quota.set_shares(limits.bytes);
    }

    /// Whether a region may begin, and where its bytes would come from.
    pub fn check_allocation(&self, asker: &Asker, wanted: &Allocation) -> Result<Room, Refusal> {
        self.revoked.check(asker.session)?;
        let taken = self.bytes_taken(wanted.bytes)?;
        self.handles.check(asker.session, asker.holder)?;
        let one_more = self.region_quota.check(asker.holder, 1);
        one_more.map_err(|it| Full::shared(Thing::MemoryRegions, it))?;
        if self.regions.len() >= REGIONS_MAX {
            return Err(Full::of(Thing::MemoryRegions, Side::Node, REGIONS_MAX as u64).into());
        }
        let more = self.byte_quota.check(asker.holder, taken);
        more.map_err(|it| Full::shared(Thing::MemoryBytes, it))?;
        if let Some(name) = &wanted.name {
            self.check_name(asker.uid, name)?;
        }
        Ok(self.arenas.room(asker.uid, asker.holder, taken)?)
    }

    pub(crate) fn bytes_taken(&self, bytes: u64) -> Result<u64, Reason> {
        grains(bytes).ok_or(Reason::Length { bytes })
    }

    pub(crate) fn check_name(&self, uid: u32, name: &MemoryName) -> Result<(), Reason> {
        let key = Key { uid, name: name.clone() };
        self.names.get(&key).map_or(Ok(()), |region| Err(Reason::Taken { region: *region }))
    }

    /// Takes an arena in that was made for a user.
    pub fn add_arena(
        &mut self,
        (uid, holder): (u32, Holder),
        bytes: u64,
    ) -> Result<ObjectId, Refusal> {
        Ok(self.arenas.add(uid, holder, bytes)?)
    }

    /// Begins a region that was checked, in this arena or in any with room. Answers its first handle,
    /// which has every right.
    pub fn allocate(
        &mut self,
        asker: &Asker,
        wanted: Allocation,
        arena: Option<ObjectId>,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.check_allocation(asker, &wanted)?;
        let Allocation { bytes, lasting, name, others } = wanted;
        let taken = self.bytes_taken(bytes)?;
        let piece = self.arenas.take(asker.uid, arena, taken).ok_or(Reason::Length { bytes })?;
        let region = Region {
            uid: asker.uid,
            holder: asker.holder,
            bytes,
            pieces: vec![piece],
            epoch: 1,
            lasting,
            name: name.clone(),
            others,
            appointed: BTreeMap::new(),
            handles: Holders::default(),
            managers: 0,
            since_ns: now_ns,
            judge: None,
            moving: None,
            moved: MoveEnd::None,
            is_staged: false,
        };
        let region = self.regions.insert(region).map_err(|full| {
            self.arenas.give(&piece);
            Full::of(Thing::MemoryRegions, Side::Node, full.limit as u64)
        })?;
        self.region_quota.take_anyway(asker.holder, 1);
        self.byte_quota.take_anyway(asker.holder, taken);
        if let Some(name) = name {
            self.names.insert(Key { uid: asker.uid, name }, region);
        }
        effects.push(Effect::Word(region, State::Live, 1));
        self.give_handle(asker, region, Rights::ALL, effects)
    }

    /// Gives a session a handle on a region that is there.
    pub(crate) fn give_handle(
        &mut self,
        asker: &Asker,
        region: ObjectId,
        rights: Rights,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        let Some(found) = self.regions.get_mut(region) else {
            return Err(Reason::NotFound.into());
        };
        let is_served = self.handles.meet(asker.session, asker.uid, asker.holder).is_served;
        let hold = match () {
            () if asker.maps && asker.uid == found.uid => Hold::Direct,
            () if is_served => Hold::Loop,
            () => Hold::Nobody,
        };
        let handle = Handle { region, rights, hold, is_lost: false, is_closing: false };
        let handle = self.handles.insert(asker.session, handle)?;
        found.handles.insert((asker.session, handle));
        found.managers += usize::from(rights.have(Rights::MANAGE));
        if hold == Hold::Loop {
            effects.push(Effect::Open { session: asker.session, handle });
        }
        Ok(handle)
    }
}

/// The epoch after one; never that of a region that is gone.
pub(crate) fn next_epoch(epoch: u32) -> u32 {
    epoch.wrapping_add(1).max(GONE + 1)
}
