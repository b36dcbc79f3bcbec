//! How areas change and end: what the loops leave, what the store does, who is answered.

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::AreaRights;
use heliostat_service_grant::Full;

use crate::areas::{Answered, Areas, Effect, Order, Question, Stage};
use crate::done::{Done, Failed};
use crate::refusal::{Reason, Refusal};

impl Areas {
    /// Gives an area another size; the answer comes later. A smaller one it gets only while nobody has
    /// it directly. Of a smaller size the loops hear first, and
    /// the store when they have left what is cut off.
    ///
    /// # Errors
    /// The handle does not allow it, another change is under way, a limit is reached, or the session
    /// was revoked.
    pub fn resize(
        &mut self,
        (session, handle): (ObjectId, ObjectId),
        bytes: u64,
        number: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let id = self.to_change(session, handle)?;
        if bytes == 0 {
            return Err(Reason::Empty.into());
        }
        let question = Question { session, number };
        let holder = self.areas.holder(id).ok_or(Reason::NotFound)?;
        let area = self.areas.get_mut(id).ok_or(Reason::NotFound)?;
        if bytes < area.bytes {
            self.check_not_held(id)?;
            let area = self.areas.get_mut(id).ok_or(Reason::NotFound)?;
            area.stage = Stage::Shrinking(question, bytes);
            effects.push(Effect::Bytes { area: id, bytes, is_asked: true });
            return Ok(());
        }
        let more = bytes - area.bytes;
        self.bytes.take(holder, more).map_err(|it| Full::shared(Thing::AreaBytes, it))?;
        area.stage = Stage::Resizing(question, bytes);
        let generation = area.generation;
        effects.push(Effect::Order(id, Order::Resize { generation, bytes }));
        Ok(())
    }

    /// All loops have left what is to be cut off an area.
    pub fn quiet(&mut self, id: ObjectId, effects: &mut Vec<Effect>) {
        let Some(area) = self.areas.get_mut(id) else { return };
        let Stage::Shrinking(question, bytes) = area.stage else { return };
        area.stage = Stage::Resizing(question, bytes);
        let generation = area.generation;
        effects.push(Effect::Order(id, Order::Resize { generation, bytes }));
    }

    /// Says what other users may do with an area from now on; the answer comes later. Handles that
    /// they have stay.
    ///
    /// # Errors
    /// The handle does not allow it, another change is under way, or the session was revoked.
    pub fn appoint(
        &mut self,
        (session, handle): (ObjectId, ObjectId),
        others: AreaRights,
        number: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let id = self.to_change(session, handle)?;
        let area = self.areas.get_mut(id).ok_or(Reason::NotFound)?;
        area.stage = Stage::Appointing(Question { session, number }, others);
        let generation = area.generation;
        effects.push(Effect::Order(id, Order::Appoint { generation, others }));
        Ok(())
    }

    /// Ends an area, which nobody has directly; the answer comes later. All handles on it end, and the store ends it when no loop
    /// has one any more.
    ///
    /// # Errors
    /// The handle does not allow it, another change is under way, somebody has the area directly, or
    /// the session was revoked.
    pub fn delete(
        &mut self,
        (session, handle): (ObjectId, ObjectId),
        number: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let id = self.to_change(session, handle)?;
        self.check_not_held(id)?;
        let area = self.areas.get_mut(id).ok_or(Reason::NotFound)?;
        area.stage = Stage::Ending(Question { session, number });
        for handle in area.handles.clone() {
            if let Some(session) = self.handles.session(handle) {
                self.begin_close(session, handle, effects);
            }
        }
        Ok(())
    }

    /// The area of a handle by which it may be changed now.
    fn to_change(&self, session: ObjectId, handle: ObjectId) -> Result<ObjectId, Refusal> {
        let held = self.handle(session, handle)?;
        let wanted = AreaRights::MANAGE;
        if !held.rights.have(wanted) {
            return Err(Reason::Denied { wanted, allowed: held.rights }.into());
        }
        match self.areas.get(held.area).map(|area| area.stage) {
            Some(Stage::Live) => Ok(held.area),
            Some(_) => Err(Reason::Busy.into()),
            None => Err(Reason::NotFound.into()),
        }
    }

    /// The store has done what was ordered for an area, or not.
    pub fn done(&mut self, id: ObjectId, result: Result<Done, Failed>, effects: &mut Vec<Effect>) {
        let Some(area) = self.areas.get_mut(id) else { return };
        let stage = std::mem::replace(&mut area.stage, Stage::Live);
        let refused = |failed: Failed| Refusal::from(Reason::from(failed));
        let answer = result.map(|_| Answered::Area(id)).map_err(refused);
        match (stage, result) {
            (Stage::Making(question), Ok(Done { generation })) => {
                area.generation = generation;
                effects.push(Effect::Answer(question, answer));
            }
            (Stage::Making(question), Err(_)) => {
                self.remove(id);
                effects.push(Effect::Answer(question, answer));
            }
            (Stage::Resizing(question, bytes), result) => {
                self.resized(id, bytes, result.is_ok(), effects);
                effects.push(Effect::Answer(question, answer));
            }
            (Stage::Appointing(question, others), result) => {
                if result.is_ok() {
                    area.others = others;
                }
                effects.push(Effect::Answer(question, answer));
            }
            (Stage::Deleting(question), result) => {
                if result.is_ok() {
                    self.remove(id);
                }
                effects.push(Effect::Answer(question, answer.map(|_| Answered::Gone)));
            }
            // Nothing was ordered: the area goes on as it was.
            (Stage::Live | Stage::Shrinking(..) | Stage::Ending(_), _) => area.stage = stage,
        }
    }

    /// The store has given an area another size, or has not.
    fn resized(&mut self, id: ObjectId, bytes: u64, is_done: bool, effects: &mut Vec<Effect>) {
        let Some(holder) = self.areas.holder(id) else { return };
        let Some(area) = self.areas.get_mut(id) else { return };
        let before = area.bytes;
        if is_done {
            area.bytes = bytes;
        }
        // The larger of both sizes was counted meanwhile.
        self.bytes.give_back(holder, before.max(bytes) - area.bytes);
        // Loops have heard of a smaller size before; of the one that it has now they hear if that is
        // larger than what they know.
        if bytes > before && is_done || bytes < before && !is_done {
            effects.push(Effect::Bytes { area: id, bytes: area.bytes, is_asked: false });
        }
    }
}
