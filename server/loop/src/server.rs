//! The server loop: sweeps its sessions' rings and one io_uring, and sleeps when nobody wants anything.
//!
//! ```text
//! sweep: orders -> completions of the device -> rings of awake sessions -> turns -> one submission
//!        -> bells
//!
//! session: awake --nothing for SPIN--> parked (its bell is watched by the io_uring) --rings--> awake
//! loop:    something done --> again;  nothing --> pauses and yields;  all parked --> sleeps
//! ```
//!
//! A parked session costs a sweep nothing. The loop enters the kernel to submit, to sleep, and to
//! have completions posted; never on behalf of one operation that others would have to wait for.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::delegated::SESSIONS_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::spin::{pause, yield_now, PAUSES_PER_YIELD};
use tracing::warn;

use super::engine::{Engine, OperationId, Token};
use super::fair::Fair;
use super::message::Order;
use super::service::Service;
use super::session::Session;

/// Orders obeyed before the sessions have their turn.
const ORDERS_AT_ONCE: usize = 64;
/// Completions of the device before the sessions have their turn.
const REAPED_AT_ONCE: usize = 128;
/// Sweeps after which orders are looked for.
const SWEEPS_PER_ORDER: u32 = 8;
/// Sweeps after which the clock is read, when there is always something to do.
const SWEEPS_PER_LOOK: u32 = 16;
/// Sweeps with nothing to do before the first pause: the next operation of one that waits for each
/// comes within a microsecond, and a pause would add half its length.
const EAGER_SWEEPS: u32 = 64;
/// Pauses between two yields while nobody else wants the core: a yield is a system call, and what
/// comes during it waits.
const PAUSES_ALONE: u32 = 64;
/// A yield that took longer gave the core to somebody.
const YIELD_NS_MAX: u64 = 3_000;

/// What the loop waits for and how patiently.
pub struct Inbox<S: Service> {
    /// From the control plane, and from other loops.
    pub orders: Receiver<Order<S>>,
    /// Readable when there are some.
    pub bell: Arc<OwnedFd>,
    /// How long a session, and the loop, stays awake with nothing to do.
    pub spin_ns: u64,
    /// The same while the device has requests, which end such a sleep.
    pub spin_flying_ns: u64,
}

/// One server loop.
pub struct Server<S: Service> {
    /// What its sessions share.
    pub engine: Engine<S>,
    pub(super) sessions: Table<Session<S>>,
    pub(super) fair: Fair,
    pub(super) now_ns: u64,
    /// Bytes that each session may have at the device; 0 while none has operations.
    pub(super) share: u64,
    seats: HashMap<ObjectId, ObjectId>,
    inbox: Inbox<S>,
    is_bell_watched: bool,
    is_over: bool,
    sweeps: u32,
    /// The last yield gave the core to somebody else.
    pub(super) is_shared: bool,
    /// Something is completed that its session was not rung for.
    is_anyone_unrung: bool,
}

impl<S: Service> Server<S> {
    /// A loop without sessions.
    pub fn new(engine: Engine<S>, inbox: Inbox<S>) -> Server<S> {
        Server {
            engine,
            sessions: Table::new(SESSIONS_MAX),
            fair: Fair::default(),
            now_ns: monotonic_ns(),
            share: 0,
            seats: HashMap::new(),
            inbox,
            is_bell_watched: false,
            is_over: false,
            sweeps: 0,
            is_shared: true,
            is_anyone_unrung: false,
        }
    }

    /// Serves until the control plane ends.
    pub fn run(mut self) {
        let mut idle = 0;
        while !self.is_over {
            if self.sweep() {
                idle = 0;
                continue;
            }
            if std::mem::take(&mut self.is_anyone_unrung) {
                self.sessions.iter_mut().for_each(|(_, session)| session.ring());
            }
            idle += 1;
            if !self.is_shared && idle <= EAGER_SWEEPS {
                continue;
            }
            let pauses = if self.is_shared { PAUSES_PER_YIELD } else { PAUSES_ALONE };
            if idle % pauses != 0 {
                pause();
                continue;
            }
            self.look_at_clock();
            if self.park_idle() {
                self.sleep();
                idle = 0;
            } else {
                self.give_way();
            }
        }
    }

    /// Lets others run on this core, and learns whether there are any.
    fn give_way(&mut self) {
        yield_now();
        let before = self.now_ns;
        self.look_at_clock();
        self.is_shared = self.now_ns.saturating_sub(before) > YIELD_NS_MAX;
    }

    /// One round over everything; false when there was nothing to do.
    pub fn sweep(&mut self) -> bool {
        self.sweeps = self.sweeps.wrapping_add(1);
        if self.sweeps % SWEEPS_PER_LOOK == 0 {
            self.look_at_clock();
        }
        // Orders may wait for a few sweeps: their bell ends a sleep.
        let mut did = self.sweeps % SWEEPS_PER_ORDER == 0 && self.obey();
        if self.engine.flying > 0 && self.engine.requests.has_completions() {
            self.release();
        }
        did |= self.reap();
        did |= self.listen();
        did |= self.take_turns();
        self.submit();
        S::swept(self);
        if did {
            self.ring_for_many();
        }
        did
    }

    /// Rings those that have many completions.
    fn ring_for_many(&mut self) {
        for (_, session) in self.sessions.iter_mut() {
            self.is_anyone_unrung |= session.ring_for_many();
        }
    }

    /// Gives the kernel what was prepared.
    pub(super) fn submit(&mut self) {
        if let Err(error) = self.engine.requests.submit() {
            // EBUSY and EAGAIN pass when completions are taken, which the next sweep does.
            warn!(%error, "the io_uring takes nothing now");
        }
    }

    fn obey(&mut self) -> bool {
        for obeyed in 0..ORDERS_AT_ONCE {
            match self.inbox.orders.try_recv() {
                Ok(order) => self.carry_out(order),
                // All loops hold an end of it, so that `Stop` says that it is over.
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return obeyed > 0,
            }
        }
        true
    }

    /// Carries out an order.
    pub fn carry_out(&mut self, order: Order<S>) {
        match order {
            Order::Begin(id, link) => {
                match self.sessions.insert(Session::new(id, *link, self.now_ns)) {
                    Ok(seat) => drop(self.seats.insert(id, seat)),
                    // The control plane has the same limit, and looks first.
                    Err(_) => self.engine.tell_broken(id, "its server loop is full"),
                }
            }
            Order::End(id) => self.end(id),
            Order::Service(order) => S::carry_out(self, order),
            Order::Stop => self.is_over = true,
        }
    }

    /// A session and what it shares with the others, by the control plane's name for it; `None`
    /// when it has ended.
    pub fn session(&mut self, id: ObjectId) -> Option<(&mut Session<S>, &mut Engine<S>)> {
        let seat = self.seats.get(&id)?;
        Some((self.sessions.get_mut(*seat)?, &mut self.engine))
    }

    /// The session of an operation, while it has not ended.
    pub fn session_of(&mut self, id: OperationId) -> Option<&mut Session<S>> {
        self.sessions.get_mut(id.seat)
    }

    /// Lets an operation that has waited go on in a later turn; one that has ended does not.
    pub fn resume(&mut self, id: OperationId) {
        let Some(session) = self.sessions.get_mut(id.seat) else { return };
        session.operations.requeue(id.operation);
        self.fair.join(id.seat.index);
    }

    /// Lets operations that have waited go on in a later turn: those that the service names, of each
    /// session that it is asked about, at this time.
    pub fn resume_named(&mut self, name: impl Fn(&mut S::PerSession, u64) -> Vec<ObjectId>) {
        for (seat, session) in self.sessions.iter_mut() {
            for operation in name(&mut session.service, self.now_ns) {
                session.operations.requeue(operation);
                self.fair.join(seat.index);
            }
        }
    }

    /// Forgets a session. Requests of its that the kernel has keep its window until they are done.
    fn end(&mut self, id: ObjectId) {
        let Some(seat) = self.seats.remove(&id) else { return };
        self.fair.leave(seat.index);
        let Some(mut session) = self.sessions.remove(seat) else { return };
        let flights = session.flights.iter().chain(session.parked);
        flights.for_each(|flight| self.engine.requests.cancel(flight));
        self.engine.requests.forget(&session.window);
        let objects: Vec<_> = session.objects.iter().map(|(id, _)| id).collect();
        for object in objects.into_iter().filter_map(|object| session.objects.remove(object)) {
            S::close(&mut self.engine, id, object);
        }
    }

    fn reap(&mut self) -> bool {
        for reaped in 0..REAPED_AT_ONCE {
            let Some((token, result)) = self.engine.requests.reap() else { return reaped > 0 };
            match token {
                Token::Inbox => self.hear_inbox(),
                Token::Bell(seat) => {
                    if let Some(session) = self.sessions.get_mut(seat) {
                        session.unpark(self.now_ns);
                    }
                }
                Token::Service(request) => {
                    self.engine.flying = self.engine.flying.saturating_sub(1);
                    S::completed(self, request, result);
                }
                Token::Operation(id) => {
                    self.engine.flying = self.engine.flying.saturating_sub(1);
                    self.completed(id, result);
                }
            }
        }
        true
    }

    fn hear_inbox(&mut self) {
        self.is_bell_watched = false;
        let mut count = [0; 8];
        // Nothing to read is as good: the orders themselves are looked at in every sweep.
        let _ = rustix::io::read(&self.inbox.bell, &mut count);
    }

    /// Takes operations from the rings of those that are awake.
    fn listen(&mut self) -> bool {
        let mut did = false;
        let mut busy = 0;
        for (seat, session) in self.sessions.iter_mut() {
            if session.has_room_again() {
                // The wait that is left over ends, and at worst wakes it once more.
                session.parked.into_iter().for_each(|flight| self.engine.requests.cancel(flight));
                session.unpark(self.now_ns);
            }
            if session.parked.is_none() {
                let taken = session.take_operations(&mut self.engine, self.now_ns);
                if taken > 0 {
                    did = true;
                    session.heard_ns = self.now_ns;
                }
            }
            // Also for one that was parked while the device had something of its.
            self.is_anyone_unrung |= session.ring_meanwhile();
            busy += u64::from(!session.operations.is_empty());
            if session.operations.has_ready() && session.held_until_ns.is_none() {
                self.fair.join(seat.index);
            }
            if let Some(fault) = session.take_fault() {
                self.engine.tell_broken(session.id, fault);
            }
        }
        // While nobody has operations nobody asks for a share, and it takes a division.
        if busy > 0 || self.share > 0 {
            let share = self.engine.device_share(busy);
            self.share = if busy > 0 { share } else { 0 };
        }
        did
    }

    /// What has to be done because time went by.
    fn look_at_clock(&mut self) {
        self.now_ns = monotonic_ns();
        self.engine.now_ns = self.now_ns;
        for (seat, session) in self.sessions.iter_mut() {
            for cancelled in session.operations.expire(self.now_ns, libc::ETIMEDOUT) {
                session.cut_short(&mut self.engine, cancelled);
            }
            if session.held_until_ns.is_some_and(|until| until <= self.now_ns) {
                session.held_until_ns = None;
                // Or the loop, which looks at the clock before it sleeps, would find nothing to do.
                if session.operations.has_ready() {
                    self.fair.join(seat.index);
                }
            }
            session.ring();
        }
        S::clock(self);
    }

    /// Parks who has been silent; true when nobody is awake and nothing is left to do.
    fn park_idle(&mut self) -> bool {
        let mut all = true;
        let Inbox { spin_ns, spin_flying_ns, .. } = self.inbox;
        let spin_ns = if self.engine.flying > 0 { spin_flying_ns } else { spin_ns };
        for (seat, session) in self.sessions.iter_mut() {
            let is_idle = self.now_ns.saturating_sub(session.heard_ns) >= spin_ns;
            let is_parked =
                session.parked.is_some() || is_idle && session.park(&mut self.engine, seat);
            all &= is_parked;
        }
        all && self.fair.is_empty()
    }

    fn sleep(&mut self) {
        if !self.is_bell_watched {
            let bell = &self.inbox.bell;
            self.is_bell_watched = self.engine.requests.readable(Token::Inbox, bell).is_ok();
        }
        let deadlines = self.sessions.iter().flat_map(|(_, session)| {
            let deadline_ns = session.operations.next_deadline_ns();
            [session.held_until_ns, deadline_ns, S::next_ns(&session.service)]
        });
        let next = deadlines.flatten().min();
        let limit = next.map(|next| Duration::from_nanos(next.saturating_sub(self.now_ns).max(1)));
        super::counts::Counts::add(&self.engine.counts.sleeps, 1);
        if let Err(error) = self.engine.requests.sleep(limit) {
            warn!(%error, "the server loop cannot sleep");
            yield_now();
        }
        self.look_at_clock();
    }
}
