//! Regions that leave for another node, and those that come from one.
//!
//! ```text
//! here   Live --begin_departure--> Leaving -> Copying --departed--> gone, with a record where it is
//!          ^-------- cancel_move ------'---------'
//! there  stage --> nobody but its maker sees it --adopt--> as any other, with its name
//!                    '-- its maker's link ends: gone
//! ```
//! The region here is the truth until the other node has said that it has adopted its own: then the
//! caller decides once, by `departed`. Where that answer is lost it neither lives here nor is given up:
//! it moves, until the caller knows what the other node has.

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::memory::limits::{FORWARDS_MAX, FORWARD_MS, MOVES_MAX};
use heliostat_abi::memory::{MemoryName, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Full;

use crate::asker::Asker;
use crate::forwards::Forward;
use crate::key::Key;
use crate::memory::{Effect, Memory};
use crate::refusal::{Reason, Refusal};

/// What another node has to know of a region that leaves for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Departing {
    /// Whose it is.
    pub uid: u32,
    /// How many bytes.
    pub bytes: u64,
    /// Its name.
    pub name: Option<MemoryName>,
    /// What others may.
    pub others: Rights,
    /// Whether it outlives its managers.
    pub lasting: bool,
    /// Who was appointed to what.
    pub appointed: Vec<(u32, Rights)>,
}

impl Memory {
    /// A region begins to leave: whoever is in it is waited for.
    pub fn begin_departure(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        let id = self.held_with(asker.session, handle, Rights::MANAGE)?;
        let (_, region) = self.held(asker.session, handle)?;
        if region.moving.is_some() || region.is_staged {
            return Err(Reason::Moves { region: id }.into());
        }
        if self.moving.len() >= MOVES_MAX {
            return Err(Full::of(Thing::MemoryMoves, Side::Node, MOVES_MAX as u64).into());
        }
        if self.forwards.len() + self.moving.len() >= FORWARDS_MAX {
            return Err(Full::of(Thing::MemoryForwards, Side::Node, FORWARDS_MAX as u64).into());
        }
        self.begin_leaving(id, Vec::new(), now_ns, effects);
        Ok(id)
    }

    /// What a region is that leaves. Nothing of it changes before it has, or stays.
    pub fn departing(&self, id: ObjectId) -> Option<Departing> {
        let region = self.regions.get(id).filter(|region| region.leaves())?;
        Some(Departing {
            uid: region.uid,
            bytes: region.bytes,
            name: region.name.clone(),
            others: region.others,
            lasting: region.lasting,
            appointed: region.appointed.iter().map(|(user, rights)| (*user, *rights)).collect(),
        })
    }

    /// A region is on the other node from now on, and nowhere else.
    pub fn departed(
        &mut self,
        id: ObjectId,
        to: Forward,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(region) = self.regions.get(id).filter(|region| region.leaves()) else {
            return false;
        };
        let managers = region.managers;
        let name = region.name.clone().map(|name| Key { uid: region.uid, name });
        let until_ns = now_ns.saturating_add(FORWARD_MS * 1_000_000);
        self.forwards.insert(id, to, (name, managers), until_ns);
        self.retire(id, effects);
        if managers == 0 {
            effects.push(Effect::Unmanaged(id));
        }
        true
    }

    /// Where the region of a handle is, if it has left.
    pub fn forward(&self, session: ObjectId, handle: ObjectId) -> Option<(ObjectId, Forward)> {
        let found = self.handles.get((session, handle)).filter(|found| !found.is_closing)?;
        let forward = self.forwards.get(found.region).filter(|_| found.is_lost)?;
        Some((found.region, forward))
    }

    /// Where the region is that had a name, if it has left and no other one has it now.
    pub fn forward_of(&self, name: &Key) -> Option<Forward> {
        self.forwards.named(name).filter(|_| !self.names.contains_key(name))
    }

    /// Where a region is by its identity here, if it has left.
    pub fn forward_of_region(&self, region: ObjectId) -> Option<Forward> {
        self.forwards.get(region)
    }

    /// Regions that have left and are looked for here.
    pub fn forward_count(&self) -> usize {
        self.forwards.len()
    }

    /// Forgets where regions are whose time is over.
    pub fn expire_forwards(&mut self, now_ns: u64) {
        self.forwards.expire(now_ns);
    }

    /// Nobody but this session sees the region of its handle before it is adopted.
    pub fn stage(&mut self, session: ObjectId, handle: ObjectId) {
        let region = self.handles.get((session, handle)).map(|found| found.region);
        if let Some(region) = region.and_then(|region| self.regions.get_mut(region)) {
            region.is_staged = true;
        }
    }

    /// Whether a region is there for its maker only.
    pub fn is_staged(&self, region: ObjectId) -> bool {
        self.regions.get(region).is_some_and(|region| region.is_staged)
    }

    /// A region that was staged is one for all, all at once.
    pub fn adopt(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        (name, others): (Option<MemoryName>, Rights),
        lasting: bool,
    ) -> Result<(), Refusal> {
        let id = self.held_with(session, handle, Rights::MANAGE)?;
        let (_, region) = self.held(session, handle)?;
        if !region.is_staged {
            return Err(Reason::Moves { region: id }.into());
        }
        let uid = region.uid;
        if let Some(name) = &name {
            self.check_name(uid, name)?;
            self.names.insert(Key { uid, name: name.clone() }, id);
        }
        let region = self.regions.get_mut(id).ok_or(Reason::Stale { region: id })?;
        (region.name, region.others, region.lasting) = (name, others, lasting);
        region.is_staged = false;
        Ok(())
    }
}
