//! Handles by name or identity, what they tell, and what the loops need of them.

use heliostat_abi::memory::limits::PIECES_PER_REPLY_MAX;
use heliostat_abi::memory::{Granted, Piece, Rights};
use heliostat_abi::name::ObjectId;

use crate::asker::Asker;
use crate::handles::{Handle, Hold};
use crate::key::Key;
use crate::memory::{Effect, Memory, Region};
use crate::refusal::{Reason, Refusal};

impl Memory {
    /// Refuses a session whose grants were revoked, where another node would be asked.
    pub fn check_session(&self, session: ObjectId) -> Result<(), Refusal> {
        self.revoked.check(session)
    }

    /// The region that has a name now.
    pub fn resolve(&self, key: &Key) -> Option<ObjectId> {
        self.names.get(key).copied()
    }

    /// What a user may do with a region of somebody else's, by its owner's word.
    pub fn rights_of(&self, region: ObjectId, uid: u32) -> Rights {
        let found = self.regions.get(region);
        let given = |region: &Region| {
            let appointed = region.appointed.get(&uid).copied().unwrap_or_default();
            region.others.and(appointed)
        };
        found.map(given).unwrap_or_default()
    }

    /// What a user was appointed to.
    pub fn appointed(&self, region: ObjectId, uid: u32) -> Rights {
        let found = self.regions.get(region);
        found.and_then(|region| region.appointed.get(&uid)).copied().unwrap_or_default()
    }

    /// Gives a session a handle. The caller has checked the rights.
    pub fn map(
        &mut self,
        asker: &Asker,
        region: ObjectId,
        rights: Rights,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.revoked.check(asker.session)?;
        if rights.is_empty() {
            return Err(Reason::Lacks { rights }.into());
        }
        if self.regions.get(region).is_none() {
            return Err(Reason::NotFound.into());
        }
        self.handles.check(asker.session, asker.holder)?;
        self.give_handle(asker, region, rights, effects)
    }

    /// A handle of a session, with its region.
    pub(crate) fn held(
        &self,
        session: ObjectId,
        handle: ObjectId,
    ) -> Result<(&Handle, &Region), Refusal> {
        self.revoked.check(session)?;
        let found = self.handles.get((session, handle)).filter(|found| !found.is_closing);
        let found = found.ok_or(Reason::NoHandle { handle })?;
        let region = self.regions.get(found.region).filter(|_| !found.is_lost);
        let region = region.ok_or(Reason::Stale { region: found.region })?;
        Ok((found, region))
    }

    /// The region of a handle that has these rights.
    pub(crate) fn held_with(
        &self,
        session: ObjectId,
        handle: ObjectId,
        rights: Rights,
    ) -> Result<ObjectId, Refusal> {
        let (found, _) = self.held(session, handle)?;
        if !found.rights.have(rights) {
            return Err(Reason::Lacks { rights }.into());
        }
        Ok(found.region)
    }

    /// What a session is told of a handle, with some pieces where it may map them.
    pub fn granted(
        &self,
        session: ObjectId,
        handle: ObjectId,
        from: u32,
    ) -> Result<Granted, Refusal> {
        let (found, region) = self.held(session, handle)?;
        let direct = found.hold == Hold::Direct;
        let all = if direct { region.pieces.as_slice() } else { &[] };
        let pieces = all.iter().skip(from as usize).take(PIECES_PER_REPLY_MAX);
        Ok(Granted {
            handle,
            region: found.region,
            bytes: region.bytes,
            epoch: region.epoch,
            rights: found.rights,
            direct,
            lasting: region.lasting,
            node: None,
            from: from.min(all.len() as u32),
            pieces_all: all.len() as u32,
            pieces: pieces.copied().collect(),
        })
    }

    /// The region of a handle, and what the handle allows; for a loop.
    pub fn handle(&self, session: ObjectId, handle: ObjectId) -> Option<(ObjectId, Rights)> {
        let (found, _) = self.held(session, handle).ok()?;
        Some((found.region, found.rights))
    }

    /// Where a region's bytes lie, and how many it has; for a loop.
    pub fn pieces(&self, region: ObjectId) -> Option<(&[Piece], u64)> {
        self.regions.get(region).map(|region| (region.pieces.as_slice(), region.bytes))
    }

    /// The epoch of a region's pieces, as its word says it.
    pub fn epoch(&self, region: ObjectId) -> Option<u32> {
        self.regions.get(region).map(|region| region.epoch)
    }

    /// The length of an arena that the asker may map.
    pub fn arena(&self, asker: &Asker, arena: ObjectId) -> Result<u64, Refusal> {
        self.revoked.check(asker.session)?;
        let found = self.arenas.arena(arena);
        let own = found.filter(|(uid, _)| asker.maps && *uid == asker.uid);
        own.map(|(_, bytes)| bytes).ok_or(Reason::NoArena { arena }.into())
    }

    /// No loop has taken this handle: operations by it fail.
    pub fn not_served(&mut self, session: ObjectId, handle: ObjectId) {
        if let Some(found) = self.handles.get_mut((session, handle)) {
            found.hold = Hold::Nobody;
        }
    }

    /// The session's operations are delegated from now on, unless a loop has still to let go of a handle
    /// that it had before (`Served`): its handles that map nothing go to a loop.
    pub fn serve(&mut self, asker: &Asker, effects: &mut Vec<Effect>) -> Result<(), Refusal> {
        self.revoked.check(asker.session)?;
        let held = self.handles.meet(asker.session, asker.uid, asker.holder);
        if held.has_loop() {
            return Err(Reason::Served.into());
        }
        held.is_served = true;
        let session = asker.session;
        for (handle, entry) in held.table.iter_mut() {
            if entry.hold == Hold::Nobody && !entry.is_lost {
                entry.hold = Hold::Loop;
                effects.push(Effect::Open { session, handle });
            }
        }
        Ok(())
    }
}
