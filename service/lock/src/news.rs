//! What sessions have not been told yet: kept until they ask.

use heliostat_abi::lock::limits::EVENTS_PER_REPLY_MAX;
use heliostat_abi::lock::Event;
use heliostat_abi::name::ObjectId;

use crate::acquire::NO_TICKET;
use crate::locks::{Effect, Locks};
use crate::refusal::Refusal;
use crate::ticket::{State, Ticket};

impl Locks {
    /// What became of a session's tickets, the oldest first, and whether there is more.
    ///
    /// # Errors
    /// The session was revoked.
    pub fn next(&mut self, session: ObjectId) -> Result<(Vec<Event>, bool), Refusal> {
        self.revoked.check(session)?;
        let untold = self.news.get(&session).into_iter().flatten();
        let tickets: Vec<_> = untold.take(EVENTS_PER_REPLY_MAX).map(|(_, id)| *id).collect();
        let events = tickets.into_iter().map(|ticket| self.told(session, ticket)).collect();
        Ok((events, self.news.contains_key(&session)))
    }

    /// Whether there is something that a session has not been told.
    ///
    /// # Errors
    /// The session was revoked.
    pub fn has_news(&self, session: ObjectId) -> Result<bool, Refusal> {
        self.revoked.check(session)?;
        Ok(self.news.contains_key(&session))
    }

    /// Refuses a session whose grants were revoked, where another node would be asked.
    ///
    /// # Errors
    /// The session was revoked.
    pub fn check_session(&self, session: ObjectId) -> Result<(), Refusal> {
        self.revoked.check(session)
    }

    /// Has a ticket's session be told how it stands.
    pub(crate) fn tell(&mut self, id: ObjectId, effects: &mut Vec<Effect>) {
        let place = self.new_place();
        let Some(session) = self.tickets.session(id) else { return };
        let Some(ticket) = self.tickets.get_mut(id) else { return };
        ticket.untold = Some(place);
        self.news.entry(session).or_default().insert(place, id);
        effects.push(Effect::Ring(session));
    }

    /// How a ticket stands; its session is told now. A ticket that is over is gone with that.
    pub(crate) fn told(&mut self, session: ObjectId, id: ObjectId) -> Event {
        let outcome = self.outcome(id);
        let Some(ticket) = self.tickets.get_mut(id) else {
            return Event { ticket: NO_TICKET, outcome };
        };
        let (untold, is_over) = (ticket.untold.take(), matches!(ticket.state, State::Over(_)));
        self.unlist(session, untold);
        if is_over {
            self.tickets.remove(id);
        }
        Event { ticket: id, outcome }
    }

    /// Forgets a ticket, also among what is to be told.
    pub(crate) fn forget_ticket(&mut self, session: ObjectId, id: ObjectId) -> Option<Ticket> {
        let ticket = self.tickets.remove(id)?;
        self.unlist(session, ticket.untold);
        Some(ticket)
    }

    fn unlist(&mut self, session: ObjectId, place: Option<u64>) {
        let (Some(place), Some(untold)) = (place, self.news.get_mut(&session)) else { return };
        untold.remove(&place);
        if untold.is_empty() {
            self.news.remove(&session);
        }
    }
}
