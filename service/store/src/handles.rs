//! Handles: how sessions leave areas, and what the loops of sessions hear of them.

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::Way;
use heliostat_service_grant::Rate;

use crate::areas::{Areas, Effect, Handle, Order, Stage};
use crate::refusal::{Reason, Refusal};

impl Areas {
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
        let Some(Handle { area: id, way, .. }) = self.handles.remove(handle) else { return };
        if way == Way::Direct {
            self.direct.0 = self.direct.0.saturating_sub(1);
        }
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

    /// A loop has taken a session in: it hears of the handles that the session has.
    pub fn serve(&self, session: ObjectId, effects: &mut Vec<Effect>) {
        for handle in self.handles.of(session) {
            let Some(held) = self.handles.get(handle) else { continue };
            let Handle { area, rights, way, is_closing, .. } = *held;
            if !is_closing && way != Way::Direct {
                effects.push(Effect::Open { session, handle, area, rights });
            }
        }
    }

    /// No loop is there any more, and none has anything under way.
    pub fn let_all_go(&mut self, effects: &mut Vec<Effect>) {
        let areas: Vec<ObjectId> = self.areas.iter().map(|(id, _)| id).collect();
        for id in areas {
            let handles = self.areas.get(id).map(|area| area.handles.clone()).unwrap_or_default();
            handles.into_iter().for_each(|handle| self.let_go(handle, effects));
            self.quiet(id, effects);
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
        for handle in &all {
            if let Some(held) = self.handles.get_mut(*handle) {
                held.is_left = true;
            }
        }
        all.into_iter().filter(|handle| self.begin_close(session, *handle, effects)).count()
    }

    /// Tells the loop to let go of a handle; false when it was told before. A direct one no loop has:
    /// whether its program still has the device, the device's locks say.
    pub(crate) fn begin_close(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(held) = self.handles.get_mut(handle) else { return false };
        let is_first = !std::mem::replace(&mut held.is_closing, true);
        match held.way {
            _ if !is_first => {}
            Way::Direct => self.let_go(handle, effects),
            Way::Emulated(_) => effects.push(Effect::Close { session, handle }),
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
    /// There is no such area, or somebody has it directly, whom nobody holds to a rate.
    pub fn set_rate(
        &mut self,
        id: ObjectId,
        rate: Rate,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if rate.per_second > 0 {
            self.check_not_held(id)?;
        }
        self.areas.get_mut(id).ok_or(Reason::NotFound)?.rate = rate;
        effects.push(Effect::Rate(id, rate));
        Ok(())
    }
}
