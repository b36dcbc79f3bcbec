//! Arenas of users, and the pieces that are taken from them.
//!
//! A user's regions lie in arenas of its own, since its sessions map them whole. Most share one with
//! others; a large region has an arena for itself, so that its end closes a file instead of punching
//! holes into one for milliseconds.

use std::collections::{BTreeSet, HashMap};

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::memory::limits::{ARENAS_MAX, ARENA_BYTES_MAX, ARENA_BYTES_MIN, GRAIN};
use heliostat_abi::memory::Piece;
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use heliostat_service_grant::{Full, Holder, Quota, Shares};

use crate::space::Space;

/// A region larger than one of so many parts of an arena has an arena of its own.
const SHARED_PARTS: u64 = 4;

/// Where the bytes of a region will come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// From an arena that is there.
    Here,
    /// From an arena of so many bytes, which has to be made first.
    NewArena(u64),
}

#[derive(Clone, Debug)]
struct Arena {
    uid: u32,
    holder: Holder,
    bytes: u64,
    space: Space,
    is_shared: bool,
}

/// All arenas.
#[derive(Clone, Debug)]
pub(crate) struct Arenas {
    table: Table<Arena>,
    /// Shared arenas of each user, by their longest free run.
    shared: HashMap<u32, BTreeSet<(u64, ObjectId)>>,
    quota: Quota,
    arena_bytes: u64,
}

/// Bytes of a region as they are taken: whole grains.
pub(crate) fn grains(bytes: u64) -> Option<u64> {
    let whole = bytes.checked_next_multiple_of(GRAIN)?;
    (1..=ARENA_BYTES_MAX).contains(&whole).then_some(whole)
}

impl Arenas {
    pub(crate) fn new(arena_bytes: u64, shares: Shares) -> Self {
        let (table, quota) = (Table::lean(ARENAS_MAX), Quota::new(shares));
        Self { table, shared: HashMap::new(), quota, arena_bytes }
    }

    pub(crate) fn set_limits(&mut self, arena_bytes: u64, shares: Shares) {
        self.arena_bytes = arena_bytes;
        self.quota.set_shares(shares);
    }

    /// Where so many bytes would come from.
    pub(crate) fn room(&self, uid: u32, holder: Holder, bytes: u64) -> Result<Room, Full> {
        let is_large = bytes > self.arena_bytes / SHARED_PARTS;
        let shared = self.shared.get(&uid);
        let has_room = shared.is_some_and(|all| all.last().is_some_and(|(run, _)| *run >= bytes));
        if has_room && !is_large {
            return Ok(Room::Here);
        }
        self.quota.check(holder, 1).map_err(|it| Full::shared(Thing::MemoryArenas, it))?;
        if self.table.len() >= ARENAS_MAX {
            return Err(Full::of(Thing::MemoryArenas, Side::Node, ARENAS_MAX as u64));
        }
        if is_large {
            return Ok(Room::NewArena(bytes.next_multiple_of(ARENA_BYTES_MIN)));
        }
        Ok(Room::NewArena(self.arena_bytes))
    }

    /// Takes an arena in that was made.
    pub(crate) fn add(&mut self, uid: u32, holder: Holder, bytes: u64) -> Result<ObjectId, Full> {
        self.quota.take(holder, 1).map_err(|it| Full::shared(Thing::MemoryArenas, it))?;
        let is_shared = bytes == self.arena_bytes;
        let arena = Arena { uid, holder, bytes, space: Space::new(bytes), is_shared };
        let id = self.table.insert(arena).map_err(|full| {
            self.quota.give_back(holder, 1);
            Full::of(Thing::MemoryArenas, Side::Node, full.limit as u64)
        })?;
        if is_shared {
            self.shared.entry(uid).or_default().insert((bytes, id));
        }
        Ok(id)
    }

    /// Takes a piece, from this arena or from any that the user shares.
    pub(crate) fn take(&mut self, uid: u32, from: Option<ObjectId>, bytes: u64) -> Option<Piece> {
        let fits = |all: &BTreeSet<(u64, ObjectId)>| {
            all.range((bytes, ObjectId::default())..).next().map(|(_, id)| *id)
        };
        let id = from.or_else(|| self.shared.get(&uid).and_then(fits))?;
        let offset = self.change(id, |space| space.take(bytes))??;
        Some(Piece { arena: id, offset, bytes })
    }

    /// Makes a piece longer where it lies, if what follows it is free.
    pub(crate) fn extend(&mut self, piece: &Piece, more: u64) -> bool {
        self.change(piece.arena, |space| space.take_at(piece.end(), more)).unwrap_or(false)
    }

    /// Gives a piece back.
    pub(crate) fn give(&mut self, piece: &Piece) {
        self.change(piece.arena, |space| space.give(piece.offset, piece.bytes));
    }

    /// Takes bytes out that nobody may have, since they could not be erased.
    pub(crate) fn withhold(&mut self, piece: &Piece) {
        self.change(piece.arena, |space| space.take_at(piece.offset, piece.bytes));
    }

    /// Forgets an arena that nothing lies in. The last one that a user shares is kept while
    /// `keeps_one`, so that a region that comes and goes needs no new file each time.
    pub(crate) fn close_unused(&mut self, id: ObjectId, keeps_one: bool) -> bool {
        let Some(arena) = self.table.get(id) else { return false };
        let shared = self.shared.get(&arena.uid).map_or(0, BTreeSet::len);
        let is_kept = keeps_one && arena.is_shared && shared == 1;
        if !arena.space.is_unused() || is_kept {
            return false;
        }
        let (uid, holder) = (arena.uid, arena.holder);
        if let Some(all) = self.shared.get_mut(&uid) {
            all.remove(&(arena.space.longest(), id));
            if all.is_empty() {
                self.shared.remove(&uid);
            }
        }
        self.table.remove(id);
        self.quota.give_back(holder, 1);
        true
    }

    /// Shared arenas of a user.
    pub(crate) fn shared_of(&self, uid: u32) -> Vec<ObjectId> {
        self.shared.get(&uid).into_iter().flatten().map(|(_, id)| *id).collect()
    }

    /// Whose an arena is, and its length.
    pub(crate) fn arena(&self, id: ObjectId) -> Option<(u32, u64)> {
        self.table.get(id).map(|arena| (arena.uid, arena.bytes))
    }

    /// How many there are, and how many of their bytes are taken.
    pub(crate) fn count(&self) -> (usize, u64) {
        (self.table.len(), self.table.iter().map(|(_, arena)| arena.space.taken()).sum())
    }

    pub(crate) fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Changes an arena's space, and its place among those that its user shares.
    fn change<R>(&mut self, id: ObjectId, change: impl FnOnce(&mut Space) -> R) -> Option<R> {
        let arena = self.table.get_mut(id)?;
        let before = arena.space.longest();
        let result = change(&mut arena.space);
        let after = arena.space.longest();
        if arena.is_shared && before != after {
            if let Some(all) = self.shared.get_mut(&arena.uid) {
                all.remove(&(before, id));
                all.insert((after, id));
            }
        }
        Some(result)
    }
}
