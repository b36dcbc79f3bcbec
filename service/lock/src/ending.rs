//! Sessions end, or lose what they have: nothing of theirs stays.

use heliostat_abi::name::ObjectId;

use crate::locks::{Effect, Locks};
use crate::ticket::State;

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
        self.end_tickets(session, &tickets, true, effects);
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
        has_died: bool,
        effects: &mut Vec<Effect>,
    ) {
        let is_waiting = |locks: &Locks, id: ObjectId| {
            locks.tickets.get(id).is_some_and(|it| matches!(it.state, State::Waiting { .. }))
        };
        for id in tickets {
            if is_waiting(self, *id) {
                self.leave_line(session, *id, has_died, effects);
            }
        }
        for id in tickets {
            match self.tickets.get(*id).map(|ticket| ticket.state) {
                Some(State::Held { .. }) => self.give_back(session, *id, has_died, effects),
                Some(_) => drop(self.forget_ticket(session, *id)),
                None => {}
            }
        }
    }
}
