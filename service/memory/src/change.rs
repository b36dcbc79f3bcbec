//! What managers do with a region: grow it, name it, appoint others, let it last.

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::memory::limits::PIECES_MAX;
use heliostat_abi::memory::page::State;
use heliostat_abi::memory::{MemoryName, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Full;

use crate::arenas::Room;
use crate::asker::Asker;
use crate::handles::Hold;
use crate::key::Key;
use crate::memory::{next_epoch, Effect, Memory, APPOINTED_MAX};
use crate::refusal::{Reason, Refusal};

impl Memory {
    /// Whether a region may grow, and where its new bytes would come from.
    pub fn check_growth(
        &self,
        asker: &Asker,
        handle: ObjectId,
        bytes: u64,
    ) -> Result<Room, Refusal> {
        let more = self.growth(asker.session, handle, bytes)?;
        if more == 0 {
            return Ok(Room::Here);
        }
        let (_, region) = self.held(asker.session, handle)?;
        if region.pieces.len() >= PIECES_MAX {
            return Err(Full::of(Thing::MemoryPieces, Side::Object, PIECES_MAX as u64).into());
        }
        let fits = self.byte_quota.check(region.holder, more);
        fits.map_err(|it| Full::shared(Thing::MemoryBytes, it))?;
        Ok(self.arenas.room(region.uid, region.holder, more)?)
    }

    /// How many bytes more have to be taken.
    fn growth(&self, session: ObjectId, handle: ObjectId, bytes: u64) -> Result<u64, Refusal> {
        self.held_with(session, handle, Rights::MANAGE)?;
        let (found, region) = self.held(session, handle)?;
        if region.moving.is_some() {
            return Err(Reason::Moves { region: found.region }.into());
        }
        if bytes < region.bytes {
            return Err(Reason::Shorter { bytes: region.bytes }.into());
        }
        let has: u64 = region.pieces.iter().map(|piece| piece.bytes).sum();
        Ok(self.bytes_taken(bytes)?.saturating_sub(has))
    }

    /// Makes a region longer, as was checked. The pieces that it has stay where they are.
    pub fn grow(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        bytes: u64,
        arena: Option<ObjectId>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.check_growth(asker, handle, bytes)?;
        let more = self.growth(asker.session, handle, bytes)?;
        let id = self.held_with(asker.session, handle, Rights::MANAGE)?;
        let region = self.regions.get_mut(id).ok_or(Reason::Stale { region: id })?;
        if more > 0 {
            let last = region.pieces.last_mut();
            let extended = last.filter(|last| arena.is_none() && self.arenas.extend(last, more));
            match extended {
                Some(last) => last.bytes += more,
                None => {
                    let piece = self.arenas.take(region.uid, arena, more);
                    region.pieces.push(piece.ok_or(Reason::Length { bytes })?);
                }
            }
            self.byte_quota.take_anyway(region.holder, more);
        }
        region.bytes = bytes;
        region.epoch = next_epoch(region.epoch);
        effects.push(Effect::Word(id, State::Live, region.epoch));
        self.place_everywhere(id, effects);
        Ok(())
    }

    /// Has each loop told where a region lies that serves a session with a handle on it.
    pub(crate) fn place_everywhere(&self, id: ObjectId, effects: &mut Vec<Effect>) {
        let Some(region) = self.regions.get(id) else { return };
        for session in region.handles.sessions() {
            let all = region.handles.of_session(session);
            let mut its = all.filter_map(|whose| self.handles.get(whose));
            // Once for all of them.
            if its.any(|entry| entry.hold == Hold::Loop && !entry.is_closing) {
                effects.push(Effect::Place { session, region: id });
            }
        }
    }

    /// The owner of the region of a handle, and the name that it has.
    pub fn named(
        &self,
        session: ObjectId,
        handle: ObjectId,
    ) -> Result<(u32, Option<MemoryName>), Refusal> {
        let (_, region) = self.held(session, handle)?;
        Ok((region.uid, region.name.clone()))
    }

    /// Gives a region a name or takes it away, and says what others may.
    pub fn rename(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        name: Option<MemoryName>,
        others: Rights,
    ) -> Result<(), Refusal> {
        let id = self.held_with(session, handle, Rights::SHARE)?;
        self.check_given(session, handle, others)?;
        self.check_stays(id)?;
        let (_, region) = self.held(session, handle)?;
        let uid = region.uid;
        let old = region.name.clone();
        if name != old {
            if let Some(name) = &name {
                self.check_name(uid, name)?;
                self.names.insert(Key { uid, name: name.clone() }, id);
            }
            if let Some(name) = old {
                self.names.remove(&Key { uid, name });
            }
        }
        let region = self.regions.get_mut(id).ok_or(Reason::Stale { region: id })?;
        region.name = name;
        region.others = others;
        Ok(())
    }

    /// What a region is does not change while another node takes it over.
    fn check_stays(&self, id: ObjectId) -> Result<(), Reason> {
        let leaves = self.regions.get(id).is_some_and(|region| region.leaves());
        (!leaves).then_some(()).ok_or(Reason::Moves { region: id })
    }

    /// Nobody gives what it has not.
    fn check_given(
        &self,
        session: ObjectId,
        handle: ObjectId,
        given: Rights,
    ) -> Result<(), Refusal> {
        let (found, _) = self.held(session, handle)?;
        if !found.rights.have(given) {
            return Err(Reason::Lacks { rights: given }.into());
        }
        Ok(())
    }

    /// Lets a user map the region with these rights, or with none.
    pub fn appoint(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        user: u32,
        rights: Rights,
    ) -> Result<(), Refusal> {
        let id = self.held_with(session, handle, Rights::MANAGE)?;
        self.check_given(session, handle, rights)?;
        self.check_stays(id)?;
        let region = self.regions.get_mut(id).ok_or(Reason::Stale { region: id })?;
        if rights.is_empty() {
            region.appointed.remove(&user);
            return Ok(());
        }
        if region.appointed.len() >= APPOINTED_MAX && !region.appointed.contains_key(&user) {
            let limit = APPOINTED_MAX as u64;
            return Err(Full::of(Thing::MemoryAppointed, Side::Object, limit).into());
        }
        region.appointed.insert(user, rights);
        Ok(())
    }

    /// Says whether a region outlives its managers.
    pub fn set_lasting(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        lasting: bool,
    ) -> Result<(), Refusal> {
        let id = self.held_with(session, handle, Rights::MANAGE)?;
        self.check_stays(id)?;
        let region = self.regions.get_mut(id).ok_or(Reason::Stale { region: id })?;
        region.lasting = lasting;
        Ok(())
    }
}
