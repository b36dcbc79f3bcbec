//! Sessions end, or lose what they have: nothing of theirs stays.

use heliostat_abi::name::ObjectId;

use crate::locks::{Effect, Locks};
use crate::ticket::State;

/// How a ticket's holder parts from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parting {
    /// By its end, perhaps in the middle of what it did.
    Died,
    /// By its own will, with everything put right.
    Willing,
    /// By its own will, and it has done nothing meanwhile.
    Untouched,
}

impl Locks {
    /// A session has ended: as if it had died in the middle of what it held.
    pub fn end(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        self.lose_all(session, effects);
        self.revoked.forget(session);
    }

    /// Takes everything from the sessions, for good. Returns how much that was.
    pub fn revoke(&mut self, sessions: &[ObjectId], effects: &mut Vec<Effect>) -> usize {
        let lost = sessions.iter().map(|session| {
            let count = self.handles.count_of(*session);
            self.lose_all(*session, effects);
            self.revoked.insert(*session);
            count
        });
        lost.sum()
    }

    fn lose_all(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        let tickets: Vec<_> = self.tickets.of(session).collect();
        self.end_tickets(session, &tickets, Parting::Died, effects);
        let handles: Vec<_> = self.handles.of(session).collect();
        for handle in handles {
            if let Some(object) = self.handles.get(handle) {
                // Whoever has a barrier open is counted on.
                self.lose_participant(*object, true, effects);
            }
            self.drop_handle(handle);
        }
    }

    /// Ends tickets of a session: first those that wait, so that none of them gets what another one
    /// gives back.
    pub(crate) fn end_tickets(
        &mut self,
        session: ObjectId,
        tickets: &[ObjectId],
        parting: Parting,
        effects: &mut Vec<Effect>,
    ) {
        let is_waiting = |locks: &Locks, id: ObjectId| {
            locks.tickets.get(id).is_some_and(|it| matches!(it.state, State::Waiting { .. }))
        };
        for id in tickets {
            if is_waiting(self, *id) {
                self.leave_line(session, *id, parting == Parting::Died, effects);
            }
        }
        for id in tickets {
            match self.tickets.get(*id).map(|ticket| ticket.state) {
                Some(State::Held { .. }) => self.give_back(session, *id, parting, effects),
                Some(_) => drop(self.forget_ticket(session, *id)),
                None => {}
            }
        }
    }
}
