//! How handles and regions end, and when their bytes may be given again.

use heliostat_abi::memory::page::State;
use heliostat_abi::memory::{Piece, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Holder;

use crate::handles::{Handle, Hold, Whose};
use crate::holders::Holders;
use crate::key::Key;
use crate::memory::{Effect, Memory, Retired, GONE};
use crate::refusal::{Reason, Refusal};

impl Memory {
    /// A session gives a handle back, also one whose region is gone.
    pub fn unmap(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.revoked.check(session)?;
        let whose = (session, handle);
        let found = self.handles.get(whose).filter(|found| !found.is_closing);
        let found = *found.ok_or(Reason::NoHandle { handle })?;
        // First, so that it is not told of what its own end brings about.
        self.close(whose, effects);
        self.resign(&found, effects);
        Ok(())
    }

    /// Ends the region of a handle, and gives the handle back.
    pub fn free(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let region = self.held_with(session, handle, Rights::MANAGE)?;
        // First, so that its own handle is not told of.
        self.close((session, handle), effects);
        self.retire(region, effects);
        Ok(())
    }

    /// A loop touches nothing by this handle any more.
    pub fn let_go(&mut self, session: ObjectId, handle: ObjectId, effects: &mut Vec<Effect>) {
        let whose = (session, handle);
        if let Some(region) = self.leaving.remove(&whose) {
            return self.release(whose, region, effects);
        }
        let Some(found) = self.handles.get_mut(whose) else { return };
        if found.hold != Hold::Loop {
            return;
        }
        found.hold = Hold::Nobody;
        let found = *found;
        if !(found.is_lost || found.is_closing) {
            // Or the loop has lost it by itself: operations by it fail.
            return self.leave_move(found.region, whose, effects);
        }
        if found.is_closing {
            self.handles.remove(whose);
        }
        self.release(whose, found.region, effects);
    }

    /// A loop touches nothing of a region any more that is gone, or that moves since this epoch; it
    /// serves these sessions.
    pub fn left(
        &mut self,
        region: ObjectId,
        epoch: u32,
        serves: impl Fn(ObjectId) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        if epoch != GONE {
            return self.left_moving(region, epoch, &serves, effects);
        }
        let Some(retired) = self.retired.get(&region) else { return };
        let sessions = retired.holds.sessions().filter(|session| serves(*session));
        let its: Vec<_> = sessions.flat_map(|session| retired.holds.of_session(session)).collect();
        its.into_iter().for_each(|(session, handle)| self.let_go(session, handle, effects));
    }

    /// A session has ended whose operations nobody carries out any more: what it held is let go of.
    pub fn let_session_go(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        let all = self.leaving.range((session, ObjectId::default())..);
        let its = all.take_while(|((other, _), _)| *other == session);
        let its: Vec<_> = its.map(|((_, handle), _)| *handle).collect();
        its.into_iter().for_each(|handle| self.let_go(session, handle, effects));
    }

    /// The loops are gone, and nobody touches anything for their sessions any more.
    pub fn let_all_go(&mut self, effects: &mut Vec<Effect>) {
        for (whose, region) in std::mem::take(&mut self.leaving) {
            self.release(whose, region, effects);
        }
    }

    /// These bytes could not be erased: nobody gets them as long as their arena is there.
    pub fn withhold(&mut self, piece: &Piece) {
        self.arenas.withhold(piece);
    }

    /// Ends a session: its handles, and what no other one manages.
    pub fn end(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        self.revoked.forget(session);
        self.questions.forget(session);
        let Some(held) = self.handles.remove_session(session) else { return };
        // All of them, before the end of one may end a region that another one holds as well.
        for (handle, found) in held.table.iter() {
            let whose = (session, handle);
            if found.hold == Hold::Loop {
                self.leaving.insert(whose, found.region);
            } else {
                self.release(whose, found.region, effects);
            }
        }
        // Of one that gave it back before, the region knows already.
        for (_, found) in held.table.iter().filter(|(_, found)| !found.is_closing) {
            self.resign(found, effects);
        }
        if !self.handles.has_user(held.uid) {
            for arena in self.arenas.shared_of(held.uid) {
                self.close_arena(arena, false, effects);
            }
        }
    }

    /// Ends what the sessions hold; they get nothing new. Bytes that they map stay theirs until they
    /// end. Answers how many handles that were.
    pub fn revoke(&mut self, sessions: &[ObjectId], effects: &mut Vec<Effect>) -> usize {
        let mut count = 0;
        for session in sessions {
            self.revoked.insert(*session);
            self.questions.forget(*session);
            let Some(held) = self.handles.session_mut(*session) else { continue };
            let open = held.table.iter_mut().filter(|(_, found)| !found.is_closing);
            let ended: Vec<_> = open.map(|(handle, found)| (handle, *found)).collect();
            count += ended.len();
            for (handle, found) in ended {
                let whose = (*session, handle);
                if found.hold != Hold::Direct {
                    self.close(whose, effects);
                } else if let Some(entry) = self.handles.get_mut(whose) {
                    entry.rights = Rights::NONE;
                }
                self.resign(&found, effects);
            }
        }
        count
    }

    /// A handle manages no more: its region may have lost its last manager.
    fn resign(&mut self, found: &Handle, effects: &mut Vec<Effect>) {
        if !found.rights.have(Rights::MANAGE) {
            return;
        }
        if found.is_lost {
            if self.forwards.resign(found.region) {
                effects.push(Effect::Unmanaged(found.region));
            }
            return;
        }
        let Some(region) = self.regions.get_mut(found.region) else { return };
        region.managers = region.managers.saturating_sub(1);
        if region.managers == 0 && !region.lasting {
            self.retire(found.region, effects);
        }
    }

    /// Takes a handle from its session, at once or when its loop has let go.
    fn close(&mut self, whose: Whose, effects: &mut Vec<Effect>) {
        let (session, handle) = whose;
        let is_served = self.handles.session(session).is_some_and(|held| held.is_served);
        let Some(found) = self.handles.get_mut(whose) else { return };
        if found.hold != Hold::Direct && is_served {
            effects.push(Effect::Close { session, handle });
        }
        if found.hold == Hold::Loop {
            found.is_closing = true;
            return;
        }
        let region = found.region;
        self.handles.remove(whose);
        self.release(whose, region, effects);
    }

    /// A region ends: its name is free, its handles are lost, its bytes wait for who may touch them.
    pub(crate) fn retire(&mut self, id: ObjectId, effects: &mut Vec<Effect>) {
        let Some(region) = self.regions.remove(id) else { return };
        effects.push(Effect::Word(id, State::Gone, GONE));
        self.region_quota.give_back(region.holder, 1);
        if let Some(name) = region.name {
            self.names.remove(&Key { uid: region.uid, name });
        }
        let (mut holds, mut last) = (Holders::default(), None);
        for whose in region.handles.iter() {
            let found = self.handles.get_mut(whose);
            let is_leaving = found.is_none() && self.leaving.contains_key(&whose);
            let hold = found.map_or(Hold::Nobody, |found| {
                found.is_lost = true;
                found.hold
            });
            // The loop is told once for all handles of a session, which are beside each other.
            if hold == Hold::Loop && last.replace(whose.0) != Some(whose.0) {
                effects.push(Effect::Leave { session: whose.0, region: id, epoch: GONE });
            }
            if hold != Hold::Nobody || is_leaving {
                holds.insert(whose);
            }
        }
        self.forget_move(id, region.moving, region.holder, effects);
        let retired = Retired { holder: region.holder, pieces: region.pieces, holds };
        if retired.holds.is_empty() {
            return self.give_up(retired.holder, &retired.pieces, effects);
        }
        self.retired.insert(id, retired);
    }

    /// A handle holds its region's bytes no more.
    fn release(&mut self, whose: Whose, id: ObjectId, effects: &mut Vec<Effect>) {
        if let Some(region) = self.regions.get_mut(id) {
            region.handles.remove(whose);
            return self.leave_move(id, whose, effects);
        }
        let Some(retired) = self.retired.get_mut(&id) else { return };
        retired.holds.remove(whose);
        if retired.holds.is_empty() {
            let retired = self.retired.remove(&id);
            let its = retired.iter();
            its.for_each(|it| self.give_up(it.holder, &it.pieces, effects));
        }
    }

    /// Nobody may touch these bytes any more.
    pub(crate) fn give_up(&mut self, holder: Holder, pieces: &[Piece], effects: &mut Vec<Effect>) {
        for piece in pieces {
            self.byte_quota.give_back(holder, piece.bytes);
            self.arenas.give(piece);
            let owner = self.arenas.arena(piece.arena).map(|(uid, _)| uid);
            let is_there = owner.is_some_and(|uid| self.handles.has_user(uid));
            if !self.close_arena(piece.arena, is_there, effects) {
                effects.push(Effect::Erase(*piece));
            }
        }
    }

    fn close_arena(&mut self, id: ObjectId, keeps: bool, effects: &mut Vec<Effect>) -> bool {
        let is_gone = self.arenas.close_unused(id, keeps);
        if is_gone {
            effects.push(Effect::ArenaGone(id));
        }
        is_gone
    }
}
