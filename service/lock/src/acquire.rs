//! Locks and semaphores are acquired, waited for, released; each line is served from its front.

use heliostat_abi::lock::{Claim, Event, Kind, Outcome};
use heliostat_abi::name::ObjectId;

use crate::asker::Asker;
use crate::ending::Parting;
use crate::locks::{Effect, Locks};
use crate::refusal::{Reason, Refusal};
use crate::ticket::{State, Ticket};

/// What has no ticket.
pub(crate) const NO_TICKET: ObjectId = ObjectId { index: 0, generation: 0 };

impl Locks {
    /// Claims something of what a handle is on. It is held at once if it is free and nobody waits for
    /// it; else there is a ticket that waits, or, without `wait`, none.
    ///
    /// # Errors
    /// There is no such handle, what it is on never meets the claim, or a limit is reached.
    pub fn acquire(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        claim: Claim,
        wait: bool,
    ) -> Result<Event, Refusal> {
        let id = self.object_of(asker.session, handle)?;
        let object = self.objects.get(id).ok_or(Reason::NoHandle { handle })?;
        let found = object.shape;
        let amount = object.amount(claim).ok_or(Reason::Claim { found })?;
        let is_free = object.line.is_empty() && object.has_room(amount);
        if !is_free && !wait {
            return Ok(Event { ticket: NO_TICKET, outcome: Outcome::Busy });
        }
        let (place, writes) = (self.new_place(), claim != Claim::Shared);
        let state = State::Waiting { place };
        let ticket = Ticket { object: id, handle, amount, writes, state, untold: None };
        let ticket = self.tickets.grant(asker.session, asker.holder, ticket)?;
        if is_free {
            self.hold(ticket);
        } else if let Some(object) = self.objects.get_mut(id) {
            object.line.insert(place, ticket);
        }
        Ok(Event { ticket, outcome: self.outcome(ticket) })
    }

    pub(crate) fn outcome(&self, ticket: ObjectId) -> Outcome {
        self.tickets.get(ticket).map_or(Outcome::Busy, Ticket::outcome)
    }

    /// Gives back what a ticket holds. Where its holder has done nothing under it (`untouched`), or has
    /// not been told that it holds, a death that came before is told to the next holder too.
    ///
    /// # Errors
    /// The session has no such ticket, or it holds nothing.
    pub fn release(
        &mut self,
        session: ObjectId,
        ticket: ObjectId,
        untouched: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.check_ticket(session, ticket)?;
        let parting = if untouched { Parting::Untouched } else { Parting::Willing };
        match self.tickets.get(ticket).map(|ticket| ticket.state) {
            Some(State::Held { .. }) => {
                self.give_back(session, ticket, parting, effects);
                Ok(())
            }
            _ => Err(Reason::NotHeld { ticket }.into()),
        }
    }

    /// Ends a ticket's waiting. Returns what it has got, where it has: a ticket that holds goes on
    /// holding, and its session has been told so now.
    ///
    /// # Errors
    /// The session has no such ticket.
    pub fn cancel(
        &mut self,
        session: ObjectId,
        ticket: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<Option<Event>, Refusal> {
        self.check_ticket(session, ticket)?;
        match self.tickets.get(ticket).map(|ticket| ticket.state) {
            Some(State::Waiting { .. }) => {
                self.leave_line(session, ticket, false, effects);
                Ok(None)
            }
            _ => Ok(Some(self.told(session, ticket))),
        }
    }

    /// A ticket takes its amount. It is in no line.
    fn hold(&mut self, id: ObjectId) {
        let token = self.next_token;
        let Some(ticket) = self.tickets.get_mut(id) else { return };
        let Some(object) = self.objects.get_mut(ticket.object) else { return };
        object.taken += ticket.amount;
        object.held += 1;
        object.last = token;
        ticket.state = State::Held { token, death: object.death };
        self.next_token += 1;
    }

    /// A ticket that waits, waits no more, and is gone. At a barrier nobody can pass without it.
    pub(crate) fn leave_line(
        &mut self,
        session: ObjectId,
        id: ObjectId,
        has_died: bool,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ticket) = self.forget_ticket(session, id) else { return };
        let State::Waiting { place } = ticket.state else { return };
        let Some(object) = self.objects.get_mut(ticket.object) else { return };
        object.line.remove(&place);
        match object.shape.kind {
            Kind::Barrier => self.lose_participant(ticket.object, has_died, effects),
            _ => self.serve_line(ticket.object, effects),
        }
    }

    /// A ticket that holds gives back, and is gone. A holder that was not told that it held has changed
    /// nothing, and has put nothing right, by whatever end.
    pub(crate) fn give_back(
        &mut self,
        session: ObjectId,
        id: ObjectId,
        parting: Parting,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ticket) = self.forget_ticket(session, id) else { return };
        let State::Held { death, .. } = ticket.state else { return };
        let Some(object) = self.objects.get_mut(ticket.object) else { return };
        object.taken = object.taken.saturating_sub(ticket.amount);
        object.held = object.held.saturating_sub(1);
        let knew = ticket.writes && ticket.untold.is_none();
        match parting {
            Parting::Died if knew && !object.shape.is_silent => {
                self.deaths += 1;
                object.death = self.deaths;
            }
            // Whoever was told of this death has put right what it left.
            Parting::Willing if knew && object.death == death => object.death = 0,
            _ => {}
        }
        self.serve_line(ticket.object, effects);
    }

    /// Whoever is at the front of a line gets what it claims while there is so much.
    fn serve_line(&mut self, id: ObjectId, effects: &mut Vec<Effect>) {
        loop {
            let Some(object) = self.objects.get_mut(id) else { return };
            let Some((place, ticket)) = object.line.first_key_value() else { return };
            let (place, ticket) = (*place, *ticket);
            let amount = self.tickets.get(ticket).map_or(0, |ticket| ticket.amount);
            if !object.has_room(amount) {
                return;
            }
            object.line.remove(&place);
            self.hold(ticket);
            self.tell(ticket, effects);
        }
    }
}
