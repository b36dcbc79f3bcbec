//! Handles: how sessions come to areas, and how they leave them.

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::AreaRights;
use heliostat_service_grant::Rate;

use crate::areas::{Area, Areas, Asker, Effect, Handle, Key, Order, Stage};
use crate::refusal::{Reason, Refusal};

impl Areas {
    /// What an area's owner lets a session do with it.
    fn allowed(area: &Area, asker: &Asker) -> AreaRights {
        match asker.is_user && asker.uid == area.key.uid {
            true => AreaRights::ALL,
            false => area.others,
        }
    }

    /// Gives a session a handle on an area. The caller has checked the rights of the configuration.
    ///
    /// # Errors
    /// No area has the name, it is not there yet or no longer, its owner does not allow that, a limit
    /// is reached, or the session was revoked.
    pub fn open(
        &mut self,
        asker: &Asker,
        key: &Key,
        wanted: AreaRights,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.revoked.check(asker.session)?;
        let id = self.resolve(key).ok_or(Reason::NotFound)?;
        let area = self.areas.get(id).ok_or(Reason::NotFound)?;
        let allowed = Self::allowed(area, asker);
        match area.stage {
            // Nobody learns of names by being told that they are busy.
            _ if allowed.is_empty() => return Err(Reason::NotFound.into()),
            _ if !allowed.have(wanted) => return Err(Reason::Denied { wanted, allowed }.into()),
            Stage::Making(_) => return Err(Reason::NotFound.into()),
            Stage::Ending(_) | Stage::Deleting(_) => return Err(Reason::Ending.into()),
            _ => {}
        }
        let handle = Handle { area: id, rights: wanted, is_closing: false };
        let session = asker.session;
        let handle = self.handles.grant(session, asker.holder, handle)?;
        if let Some(area) = self.areas.get_mut(id) {
            area.handles.insert(handle);
        }
        effects.push(Effect::Open { session, handle, area: id, rights: wanted });
        Ok(handle)
    }

    /// A session gives a handle back.
    ///
    /// # Errors
    /// It has no such handle.
    pub fn close(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.handle(session, handle)?;
        self.begin_close(session, handle, effects);
        Ok(())
    }

    /// A loop has nothing under way any more by a handle of which it was told that it is closed.
    pub fn let_go(&mut self, handle: ObjectId, effects: &mut Vec<Effect>) {
        if !self.handles.get(handle).is_some_and(|it| it.is_closing) {
            return;
        }
        let Some(Handle { area: id, .. }) = self.handles.remove(handle) else { return };
        if let Some(area) = self.areas.get_mut(id) {
            area.handles.remove(&handle);
        }
        self.end_if_left(id, effects);
    }

    /// Has the store end an area that is to end, once no loop has a handle on it.
    pub(crate) fn end_if_left(&mut self, id: ObjectId, effects: &mut Vec<Effect>) {
        let Some(area) = self.areas.get_mut(id) else { return };
        let Stage::Ending(question) = area.stage else { return };
        if area.handles.is_empty() {
            area.stage = Stage::Deleting(question);
            effects.push(Effect::Order(id, Order::Delete { generation: area.generation }));
        }
    }

    /// A session has ended.
    pub fn end(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        self.close_all(session, effects);
        self.revoked.forget(session);
    }

    /// Takes everything from some sessions, which get nothing any more; how many handles those were.
    pub fn revoke(&mut self, sessions: &[ObjectId], effects: &mut Vec<Effect>) -> usize {
        let mut count = 0;
        for session in sessions {
            count += self.close_all(*session, effects);
            self.revoked.insert(*session);
        }
        count
    }

    fn close_all(&mut self, session: ObjectId, effects: &mut Vec<Effect>) -> usize {
        let all: Vec<ObjectId> = self.handles.of(session).collect();
        all.into_iter().filter(|handle| self.begin_close(session, *handle, effects)).count()
    }

    /// Tells the loop to let go of a handle; false when it was told before.
    pub(crate) fn begin_close(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(held) = self.handles.get_mut(handle) else { return false };
        let is_first = !std::mem::replace(&mut held.is_closing, true);
        if is_first {
            effects.push(Effect::Close { session, handle });
        }
        is_first
    }

    /// A handle that a session has and has not given back.
    pub(crate) fn handle(&self, session: ObjectId, handle: ObjectId) -> Result<Handle, Refusal> {
        self.revoked.check(session)?;
        match self.handles.held(session, handle) {
            Some((held, ())) if !held.is_closing => Ok(*held),
            _ => Err(Reason::NoHandle { handle }.into()),
        }
    }

    /// Sets how fast an area may be read and written, by all together.
    ///
    /// # Errors
    /// There is no such area.
    pub fn set_rate(
        &mut self,
        id: ObjectId,
        rate: Rate,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.areas.get_mut(id).ok_or(Reason::NotFound)?.rate = rate;
        effects.push(Effect::Rate(id, rate));
        Ok(())
    }
}
