//! Barriers: participants arrive, the last one lets all go on; one that is lost breaks it for all.

use heliostat_abi::lock::{Event, Kind, Outcome, Why};
use heliostat_abi::name::ObjectId;

use crate::acquire::NO_TICKET;
use crate::asker::Asker;
use crate::locks::{Effect, Locks};
use crate::refusal::{Reason, Refusal};
use crate::ticket::{State, Ticket};

impl Locks {
    /// A participant arrives. The last one passes at once, and all who wait are told that they do.
    ///
    /// # Errors
    /// There is no such handle, it is on no barrier, or a limit is reached.
    pub fn arrive(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<Event, Refusal> {
        let id = self.barrier_of(asker.session, handle)?;
        let object = self.objects.get_mut(id).ok_or(Reason::NoHandle { handle })?;
        let (generation, index) = (object.last, object.line.len() as u32);
        if let Some(why) = object.broken {
            return Ok(Event { ticket: NO_TICKET, outcome: Outcome::Broken { generation, why } });
        }
        if index + 1 >= object.shape.count {
            object.last += 1;
            self.end_line(id, |index| Outcome::Passed { generation, index }, effects);
            return Ok(Event { ticket: NO_TICKET, outcome: Outcome::Passed { generation, index } });
        }
        let place = self.new_place();
        let (amount, writes, state) = (0, false, State::Waiting { place });
        let ticket = Ticket { object: id, handle, amount, writes, state, untold: None };
        let ticket = self.tickets.grant(asker.session, asker.holder, ticket)?;
        if let Some(object) = self.objects.get_mut(id) {
            object.line.insert(place, ticket);
        }
        Ok(Event { ticket, outcome: Outcome::Queued })
    }

    /// Makes a barrier whole, for the next generation. Who waits is told that it is broken.
    ///
    /// # Errors
    /// There is no such handle, or it is on no barrier.
    pub fn reset(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let id = self.barrier_of(session, handle)?;
        self.break_barrier(id, Why::Reset, effects);
        if let Some(object) = self.objects.get_mut(id) {
            object.broken = None;
            object.last += 1;
        }
        Ok(())
    }

    /// A participant will not arrive any more, or has stopped waiting.
    pub(crate) fn lose_participant(
        &mut self,
        id: ObjectId,
        has_died: bool,
        effects: &mut Vec<Effect>,
    ) {
        if self.objects.get(id).is_some_and(|object| object.shape.kind == Kind::Barrier) {
            self.break_barrier(id, if has_died { Why::Died } else { Why::GaveUp }, effects);
        }
    }

    /// What broke it first stays the reason.
    fn break_barrier(&mut self, id: ObjectId, why: Why, effects: &mut Vec<Effect>) {
        let Some(object) = self.objects.get_mut(id) else { return };
        let (generation, why) = (object.last, *object.broken.get_or_insert(why));
        self.end_line(id, |_| Outcome::Broken { generation, why }, effects);
    }

    /// Ends all that wait, each with an outcome by how many were before it.
    fn end_line(
        &mut self,
        id: ObjectId,
        outcome: impl Fn(u32) -> Outcome,
        effects: &mut Vec<Effect>,
    ) {
        let Some(object) = self.objects.get_mut(id) else { return };
        let line = std::mem::take(&mut object.line);
        for (index, ticket) in line.into_values().enumerate() {
            if let Some(ticket) = self.tickets.get_mut(ticket) {
                ticket.state = State::Over(outcome(index as u32));
            }
            self.tell(ticket, effects);
        }
    }

    fn barrier_of(&self, session: ObjectId, handle: ObjectId) -> Result<ObjectId, Refusal> {
        let id = self.object_of(session, handle)?;
        match self.objects.get(id).map(|object| object.shape) {
            Some(found) if found.kind != Kind::Barrier => Err(Reason::Claim { found }.into()),
            _ => Ok(id),
        }
    }
}
