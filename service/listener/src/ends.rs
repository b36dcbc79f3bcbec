//! How things end: a worker is left, a session is gone or revoked, a listener is empty or removed.

use heliostat_abi::name::ObjectId;

use crate::listeners::{Effect, Joined, Listeners};
use crate::refusal::{Reason, Refusal};

impl Listeners {
    /// A session takes from a worker's queue no more; the last one ends the worker.
    pub fn leave(
        &mut self,
        session: ObjectId,
        worker: ObjectId,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        match self.workers.leave(session, worker) {
            None => Err(Reason::NotWorker { worker }.into()),
            Some(0) => {
                self.end_worker(worker, now_ns, effects);
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    /// Takes back a join by this socket that could not be carried out: nobody has heard of its worker. A
    /// listener that was made for it is given up.
    pub fn take_back(
        &mut self,
        joined: Joined,
        socket: u64,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) {
        if joined.is_first {
            return self.remove(joined.listener, now_ns, effects);
        }
        self.workers.remove(joined.worker);
        let Some(listener) = self.listeners.get_mut(joined.listener) else { return };
        listener.places.remove(&joined.place);
        if joined.brings_socket && listener.sockets.remove(&socket) {
            self.sockets.give_back(listener.holder, 1);
        }
    }

    /// Ends what a session has; it is gone.
    pub fn end(&mut self, session: ObjectId, now_ns: u64, effects: &mut Vec<Effect>) {
        let held: Vec<ObjectId> = self.workers.of(session).collect();
        for worker in held {
            let _ = self.leave(session, worker, now_ns, effects);
        }
        self.revoked.forget(session);
    }

    /// Ends what the sessions have, and gives them nothing new. Answers how much that was.
    pub fn revoke(
        &mut self,
        sessions: &[ObjectId],
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> usize {
        let mut count = 0;
        for session in sessions {
            count += self.workers.count_of(*session);
            let mut ends = Vec::new();
            self.end(*session, now_ns, &mut ends);
            effects.extend(ends.into_iter().map(Effect::of_living));
            self.revoked.insert(*session);
        }
        count
    }

    pub(crate) fn end_worker(&mut self, worker: ObjectId, now_ns: u64, effects: &mut Vec<Effect>) {
        let Some(gone) = self.workers.remove(worker) else { return };
        if let Some(listener) = self.listeners.get_mut(gone.listener) {
            listener.places.remove(&gone.place);
            listener.is_left(now_ns);
        }
        effects.push(Effect::WorkerEnds { listener: gone.listener, worker });
    }

    /// Ends a listener, and its workers with it.
    pub fn remove(&mut self, listener: ObjectId, now_ns: u64, effects: &mut Vec<Effect>) {
        let Some(found) = self.listeners.get(listener) else { return };
        let workers: Vec<ObjectId> = found.places.values().copied().collect();
        // They end with it, all at once: what one of them has not taken is no other's.
        let mut ends = Vec::new();
        workers.into_iter().for_each(|worker| self.end_worker(worker, now_ns, &mut ends));
        self.remove_listener(listener);
        effects.push(Effect::ListenerEnds(listener));
    }

    pub(crate) fn remove_listener(&mut self, listener: ObjectId) {
        if let Some(gone) = self.listeners.remove(listener) {
            self.by_endpoint.remove(&gone.endpoint);
            self.sockets.give_back(gone.holder, gone.sockets.len() as u64);
        }
    }

    /// Ends listeners that have been empty for long enough; one that `holds` connections which nobody
    /// has taken, later.
    pub fn pass_time(
        &mut self,
        now_ns: u64,
        holds: impl Fn(ObjectId) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        let over: Vec<ObjectId> = self
            .listeners
            .iter()
            .filter(|(_, it)| it.ends_at_ns().is_some_and(|end| end <= now_ns))
            .map(|(id, _)| id)
            .collect();
        for id in over {
            let listener = self.listeners.get_mut(id).filter(|_| holds(id));
            if !listener.is_some_and(|it| it.waits_on(now_ns)) {
                self.remove(id, now_ns, effects);
            }
        }
    }

    /// When the next one has been.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.listeners.iter().filter_map(|(_, listener)| listener.ends_at_ns()).min()
    }
}

impl Effect {
    /// The same of a worker that lives.
    fn of_living(self) -> Effect {
        match self {
            Effect::WorkerEnds { listener, worker } => Effect::WorkerDismissed { listener, worker },
            other => other,
        }
    }
}
