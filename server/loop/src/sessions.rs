//! The sessions of a loop, and what they share: what a service works with when it is told something.

use std::collections::HashMap;

use heliostat_abi::file::delegated::SESSIONS_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::{Table, TableFull};

use super::engine::{Engine, OperationId};
use super::fair::Fair;
use super::new_session::NewSession;
use super::parts::{Parts, PerSession};
use super::session::Session;

/// The sessions of one loop.
pub struct Sessions<S: Parts> {
    /// What they share.
    pub engine: Engine<S>,
    pub(super) table: Table<Session<S>>,
    pub(super) fair: Fair,
    /// Bytes that each session may have at the device; 0 while none has operations.
    pub(super) share: u64,
    /// The last yield gave the core to somebody else.
    pub(super) is_shared: bool,
    /// Something is completed that its session was not rung for.
    pub(super) is_anyone_unrung: bool,
    /// By the control plane's names, the places in the table.
    seats: HashMap<ObjectId, ObjectId>,
}

impl<S: Parts> Sessions<S> {
    /// None yet.
    pub(super) fn new(engine: Engine<S>) -> Self {
        let (table, fair) = (Table::new(SESSIONS_MAX), Fair::default());
        let (share, is_shared, is_anyone_unrung, seats) = (0, true, false, HashMap::new());
        Self { engine, table, fair, share, is_shared, is_anyone_unrung, seats }
    }

    /// Takes a session in.
    ///
    /// # Errors
    /// There are as many as a control plane has at most.
    pub(super) fn begin(&mut self, id: ObjectId, new: NewSession) -> Result<(), TableFull> {
        let session = Session::new(id, new, self.engine.now_ns);
        self.seats.insert(id, self.table.insert(session)?);
        Ok(())
    }

    /// Takes a session out.
    pub(super) fn take_out(&mut self, id: ObjectId) -> Option<(ObjectId, Session<S>)> {
        let seat = self.seats.remove(&id)?;
        self.fair.leave(seat.index);
        Some((seat, self.table.remove(seat)?))
    }

    /// A session and what it shares with the others, by the control plane's name for it; `None`
    /// when it has ended.
    pub fn session(&mut self, id: ObjectId) -> Option<(&mut Session<S>, &mut Engine<S>)> {
        let seat = self.seats.get(&id)?;
        Some((self.table.get_mut(*seat)?, &mut self.engine))
    }

    /// The session with this place and what it shares with the others; `None` when it has ended.
    pub fn at(&mut self, seat: ObjectId) -> Option<(&mut Session<S>, &mut Engine<S>)> {
        Some((self.table.get_mut(seat)?, &mut self.engine))
    }

    /// The place of a session, by the control plane's name for it.
    pub fn seat(&self, id: ObjectId) -> Option<ObjectId> {
        self.seats.get(&id).copied()
    }

    /// The session of an operation, while it has not ended.
    pub fn session_of(&mut self, id: OperationId) -> Option<&mut Session<S>> {
        self.table.get_mut(id.seat)
    }

    /// Lets an operation that has waited go on in a later turn; one that has ended does not.
    pub fn resume(&mut self, id: OperationId) {
        let Some(session) = self.table.get_mut(id.seat) else { return };
        session.operations.requeue(id.operation);
        self.fair.join(id.seat.index);
    }

    /// Lets operations that have waited go on in a later turn: those that the service names, of each
    /// session that it is asked about, at this time.
    pub fn resume_named(&mut self, name: impl Fn(&mut S::PerSession, u64) -> Vec<ObjectId>) {
        for (seat, session) in self.table.iter_mut() {
            for operation in name(&mut session.service, self.engine.now_ns) {
                session.operations.requeue(operation);
                self.fair.join(seat.index);
            }
        }
    }

    /// What has to be done because time went by.
    pub(super) fn pass_time(&mut self, now_ns: u64) {
        self.engine.now_ns = now_ns;
        for (seat, session) in self.table.iter_mut() {
            for cancelled in session.operations.expire(now_ns, libc::ETIMEDOUT) {
                session.cut_short(&mut self.engine, cancelled);
            }
            if session.held_until_ns.is_some_and(|until| until <= now_ns) {
                session.held_until_ns = None;
                // Or the loop, which looks at the clock before it sleeps, would find nothing to do.
                if session.operations.has_ready() {
                    self.fair.join(seat.index);
                }
            }
            session.ring();
        }
    }

    /// When there is something to do because time went by.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let deadlines = self.table.iter().flat_map(|(_, session)| {
            let deadline_ns = session.operations.next_deadline_ns();
            [session.held_until_ns, deadline_ns, session.service.next_ns()]
        });
        deadlines.flatten().chain(self.engine.service.next_ns()).min()
    }

    /// Parks who has been silent for so long; true when nobody is awake and nothing is left to do.
    pub(super) fn park_idle(&mut self, spin_ns: u64) -> bool {
        let (mut all, now_ns) = (true, self.engine.now_ns);
        for (seat, session) in self.table.iter_mut() {
            let is_idle = now_ns.saturating_sub(session.heard_ns) >= spin_ns;
            all &= session.parked.is_some() || is_idle && session.park(&mut self.engine, seat);
        }
        all && self.fair.is_empty()
    }

    /// A parked session has rung.
    pub(super) fn unpark(&mut self, seat: ObjectId) {
        if let Some(session) = self.table.get_mut(seat) {
            session.unpark(self.engine.now_ns);
        }
    }

    /// Rings those that have many completions.
    pub(super) fn ring_for_many(&mut self) {
        for (_, session) in self.table.iter_mut() {
            self.is_anyone_unrung |= session.ring_for_many();
        }
    }

    /// Rings those that were not rung, if there are any.
    pub(super) fn ring_unrung(&mut self) {
        if std::mem::take(&mut self.is_anyone_unrung) {
            self.table.iter_mut().for_each(|(_, session)| session.ring());
        }
    }
}
