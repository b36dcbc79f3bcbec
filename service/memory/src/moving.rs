//! Moves: a region's bytes go to other pieces, while handles on it stay as they are.
//!
//! ```text
//!        begin_move              nobody is in it any more           copied
//! Live ------------> Leaving -----------------------------> Copying --------> Live, other pieces
//!   ^  word: moving     |                                      |       epoch + 1, the old ones are free
//!   '-------------------+--------------------------------------'
//!     cancel: somebody does not leave in time, no memory; the pieces that it had; epoch + 1
//! ```
//!
//! Who begins to use the region while its word says that it moves waits, on each path. Who was in it
//! before is waited for: a loop says that it has left, of a session that maps the region the caller
//! looks at its presence page. The end of a handle or of its session is as good. The region's end ends
//! the move: its new pieces are nobody's yet.
//!
//! What loops answer names the epoch of the move that it is about: an answer about one that was given up
//! says nothing of the next.

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::memory::limits::{MOVES_MAX, MOVE_LEAVE_MS};
use heliostat_abi::memory::page::State;
use heliostat_abi::memory::{MoveStage, Piece, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Full, Holder};

use crate::arenas::Room;
use crate::asker::Asker;
use crate::handles::{Hold, Whose};
use crate::holders::Holders;
use crate::memory::{next_epoch, Effect, Memory, Region};
use crate::refusal::{Reason, Refusal};

/// A region on its way.
#[derive(Clone, Debug)]
pub(crate) struct Moving {
    /// Where it goes; nowhere here if it leaves for another node.
    pub(crate) pieces: Vec<Piece>,
    /// Handles by which a loop may be in it.
    pub(crate) loops: Holders,
    /// Handles by which a session that maps it may be.
    pub(crate) direct: Holders,
    until_ns: u64,
    is_copying: bool,
}

/// How the last move of a region ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MoveEnd {
    /// There was none.
    #[default]
    None,
    /// It lies elsewhere.
    Done,
    /// Somebody has not left in time: this session, if its handle is still there.
    Held(ObjectId),
    /// The bytes could not be copied.
    Failed,
}

/// What has to be copied for a move: the bytes of pieces in the order of these to those.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyPlan {
    /// Where they lie.
    pub from: Vec<Piece>,
    /// Where they go.
    pub to: Vec<Piece>,
    /// How many.
    pub bytes: u64,
}

impl Region {
    /// Whether it leaves for another node.
    pub(crate) fn leaves(&self) -> bool {
        self.moving.as_deref().is_some_and(|moving| moving.pieces.is_empty())
    }
}

impl Memory {
    /// Whether the region of a handle may be moved, and where its bytes would go; whose it is.
    pub fn check_move(
        &self,
        asker: &Asker,
        handle: ObjectId,
    ) -> Result<(u32, Holder, Room), Refusal> {
        let id = self.held_with(asker.session, handle, Rights::MANAGE)?;
        let (_, region) = self.held(asker.session, handle)?;
        if region.moving.is_some() || region.is_staged {
            return Err(Reason::Moves { region: id }.into());
        }
        if self.moving.len() >= MOVES_MAX {
            return Err(Full::of(Thing::MemoryMoves, Side::Node, MOVES_MAX as u64).into());
        }
        let taken = self.bytes_taken(region.bytes)?;
        let fits = self.byte_quota.check(region.holder, taken);
        fits.map_err(|it| Full::shared(Thing::MemoryBytes, it))?;
        let room = self.arenas.room(region.uid, region.holder, taken)?;
        Ok((region.uid, region.holder, room))
    }

    /// Begins a move that was checked. The bytes will lie in one piece.
    pub fn begin_move(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        arena: Option<ObjectId>,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.check_move(asker, handle)?;
        let id = self.held_with(asker.session, handle, Rights::MANAGE)?;
        let region = self.regions.get_mut(id).ok_or(Reason::Stale { region: id })?;
        let bytes = region.bytes;
        let taken = crate::arenas::grains(bytes).ok_or(Reason::Length { bytes })?;
        let piece = self.arenas.take(region.uid, arena, taken).ok_or(Reason::Length { bytes })?;
        self.byte_quota.take_anyway(region.holder, taken);
        self.begin_leaving(id, vec![piece], now_ns, effects);
        Ok(id)
    }

    /// The region's word says that it moves, and whoever may be in it is told, or looked for.
    pub(crate) fn begin_leaving(
        &mut self,
        id: ObjectId,
        pieces: Vec<Piece>,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) {
        let Some(region) = self.regions.get_mut(id) else { return };
        let (mut loops, mut direct) = (Holders::default(), Holders::default());
        effects.push(Effect::Word(id, State::Moving, region.epoch));
        for whose in region.handles.iter() {
            match self.handles.get(whose).map(|found| found.hold) {
                Some(Hold::Direct) => direct.insert(whose),
                Some(Hold::Loop) => loops.insert(whose),
                Some(Hold::Nobody) => {}
                // Its session has ended, and the loop will let go of it by itself.
                None => loops.insert(whose),
            }
        }
        let told = loops.sessions().map(|session| Effect::Leave {
            session,
            region: id,
            epoch: region.epoch,
        });
        effects.extend(told);
        let until_ns = now_ns.saturating_add(MOVE_LEAVE_MS * 1_000_000);
        let moving = Moving { pieces, loops, direct, until_ns, is_copying: false };
        region.moving = Some(Box::new(moving));
        self.moving.insert(id);
        self.go_on_moving(id, effects);
    }

    /// The regions that are on their way.
    pub fn moves(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.moving.iter().copied()
    }

    /// Handles of sessions that may be in a region that moves: of each the caller looks whether it is.
    pub fn may_be_in(&self, region: ObjectId) -> Vec<(ObjectId, ObjectId)> {
        let found = self.regions.get(region).and_then(|region| region.moving.as_deref());
        found.map(|moving| moving.direct.iter().collect()).unwrap_or_default()
    }

    /// A session is not in the region of a handle any more whose word says that it moves.
    pub fn is_out(&mut self, region: ObjectId, whose: Whose, effects: &mut Vec<Effect>) {
        self.leave_move(region, whose, effects);
    }

    /// What is to be copied, once everybody has left.
    pub fn copy_plan(&self, region: ObjectId) -> Option<CopyPlan> {
        let found = self.regions.get(region)?;
        let moving = found.moving.as_deref().filter(|moving| moving.is_copying)?;
        let (from, to) = (found.pieces.clone(), moving.pieces.clone());
        Some(CopyPlan { from, to, bytes: found.bytes })
    }

    /// Whether a region's bytes are to be copied.
    pub fn is_copying(&self, region: ObjectId) -> bool {
        let found = self.regions.get(region).and_then(|region| region.moving.as_deref());
        found.is_some_and(|moving| moving.is_copying)
    }

    /// The bytes are where they were to go: the region lies there.
    pub fn copied(&mut self, id: ObjectId, effects: &mut Vec<Effect>) {
        let Some(region) = self.regions.get_mut(id) else { return };
        let is_copied = |moving: &mut Box<Moving>| moving.is_copying && !moving.pieces.is_empty();
        let Some(moving) = region.moving.take_if(is_copied) else { return };
        let old = std::mem::replace(&mut region.pieces, moving.pieces);
        self.end_move(id, old, MoveEnd::Done, effects);
    }

    /// The move is given up: the region lies where it lay.
    pub fn cancel_move(&mut self, id: ObjectId, why: MoveEnd, effects: &mut Vec<Effect>) {
        let moving = self.regions.get_mut(id).and_then(|region| region.moving.take());
        if let Some(moving) = moving {
            self.end_move(id, moving.pieces, why, effects);
        }
    }

    /// Gives up the moves whose regions somebody has not left in time.
    pub fn expire_moves(&mut self, now_ns: u64, effects: &mut Vec<Effect>) {
        let late = |id: &ObjectId| {
            let moving = self.regions.get(*id)?.moving.as_deref()?;
            let is_late = !moving.is_copying && moving.until_ns <= now_ns;
            let first = moving.direct.iter().chain(moving.loops.iter()).next();
            first.filter(|_| is_late).map(|whose| (*id, whose.0))
        };
        let late: Vec<_> = self.moving.iter().filter_map(late).collect();
        for (id, session) in late {
            self.cancel_move(id, MoveEnd::Held(session), effects);
        }
    }

    /// How the last move of the region of a handle stands, and how it ended.
    pub fn move_state(
        &self,
        session: ObjectId,
        handle: ObjectId,
    ) -> Result<(ObjectId, MoveStage, MoveEnd), Refusal> {
        let (found, region) = self.held(session, handle)?;
        let stage = match (region.moving.as_deref(), region.moved) {
            (Some(moving), _) if moving.is_copying => MoveStage::Copying,
            (Some(_), _) => MoveStage::Leaving,
            (None, MoveEnd::None) => MoveStage::None,
            (None, MoveEnd::Done) => MoveStage::Done,
            (None, MoveEnd::Held(_)) => MoveStage::Held,
            (None, MoveEnd::Failed) => MoveStage::Failed,
        };
        Ok((found.region, stage, region.moved))
    }

    /// A loop has left a region that moves, for these sessions.
    pub(crate) fn left_moving(
        &mut self,
        id: ObjectId,
        epoch: u32,
        serves: &impl Fn(ObjectId) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        let Some(region) = self.regions.get(id).filter(|region| region.epoch == epoch) else {
            return;
        };
        let Some(moving) = region.moving.as_deref() else { return };
        let its: Vec<_> = moving.loops.iter().filter(|whose| serves(whose.0)).collect();
        its.into_iter().for_each(|whose| self.leave_move(id, whose, effects));
    }

    /// Nobody is in a region by this handle, if it moves.
    pub(crate) fn leave_move(&mut self, id: ObjectId, whose: Whose, effects: &mut Vec<Effect>) {
        let region = self.regions.get_mut(id);
        if let Some(moving) = region.and_then(|region| region.moving.as_deref_mut()) {
            moving.loops.remove(whose);
            moving.direct.remove(whose);
            self.go_on_moving(id, effects);
        }
    }

    /// A region that moves has ended: the pieces that it was to have are free.
    pub(crate) fn forget_move(
        &mut self,
        id: ObjectId,
        moving: Option<Box<Moving>>,
        holder: Holder,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(moving) = moving {
            self.moving.remove(&id);
            self.give_up(holder, &moving.pieces, effects);
        }
    }

    fn go_on_moving(&mut self, id: ObjectId, effects: &mut Vec<Effect>) {
        let region = self.regions.get_mut(id);
        let Some(moving) = region.and_then(|region| region.moving.as_deref_mut()) else { return };
        let is_left = moving.loops.is_empty() && moving.direct.is_empty();
        if is_left && !std::mem::replace(&mut moving.is_copying, is_left) {
            effects.push(Effect::Copy(id));
        }
    }

    /// The region is where its pieces say; these others are nobody's.
    fn end_move(
        &mut self,
        id: ObjectId,
        others: Vec<Piece>,
        how: MoveEnd,
        effects: &mut Vec<Effect>,
    ) {
        self.moving.remove(&id);
        let Some(region) = self.regions.get_mut(id) else { return };
        region.moved = how;
        region.epoch = next_epoch(region.epoch);
        let holder = region.holder;
        effects.push(Effect::Word(id, State::Live, region.epoch));
        self.place_everywhere(id, effects);
        self.give_up(holder, &others, effects);
    }
}
