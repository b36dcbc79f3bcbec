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

use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::spin::{pause, yield_now, PAUSES_PER_YIELD};
use tracing::warn;

use super::bell::Bell;
use super::counts::Counts;
use super::engine::{Engine, Token};
use super::message::Order;
use super::service::Service;
use super::sessions::Sessions;

/// Orders obeyed before the sessions have their turn.
const ORDERS_AT_ONCE: usize = 64;
/// How many times so many before operations that came after them.
const ROUNDS_OF_ORDERS: usize = 16;
/// Completions of the device before the sessions have their turn.
const REAPED_AT_ONCE: usize = 128;
/// Sweeps after which orders are looked for, as before each sleep.
const SWEEPS_PER_ORDER: u32 = 8;
/// Sweeps after which the clock is read, when there is always something to do.
const SWEEPS_PER_LOOK: u32 = 16;
/// Sweeps with nothing to do before the first pause: the next operation of one that waits for each
/// comes within a microsecond, and a pause would add half its length.
const EAGER_SWEEPS: u32 = 64;
/// Pauses between two yields while nobody else wants the core: a yield is a system call, and what
/// comes during it waits.
const PAUSES_ALONE: u32 = 64;
/// Longest sleep while the orders' bell cannot be watched, for want of room or of a thread.
const UNHEARD_NS_MAX: u64 = 10_000_000;
/// A yield that took longer gave the core to somebody.
const YIELD_NS_MAX: u64 = 3_000;

/// What the loop waits for and how patiently.
pub struct Inbox<S: Service> {
    /// From the control plane, and from other loops.
    pub orders: Receiver<Order<S>>,
    /// Rings when there are some and the loop sleeps.
    pub bell: Arc<Bell>,
    /// How long a session, and the loop, stays awake with nothing to do.
    pub spin_ns: u64,
    /// The same while the device has requests, which end such a sleep, or answers are awaited for which
    /// looking does not pay.
    pub spin_flying_ns: u64,
}

/// One server loop.
pub struct Server<S: Service> {
    sessions: Sessions<S>,
    inbox: Inbox<S>,
    is_bell_watched: bool,
    is_over: bool,
    sweeps: u32,
}

impl<S: Service> Server<S> {
    /// A loop without sessions.
    pub fn new(mut engine: Engine<S>, inbox: Inbox<S>) -> Server<S> {
        engine.now_ns = monotonic_ns();
        Server {
            sessions: Sessions::new(engine),
            inbox,
            is_bell_watched: false,
            is_over: false,
            sweeps: 0,
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
            self.sessions.ring_unrung();
            idle += 1;
            if !self.sessions.is_shared && idle <= EAGER_SWEEPS {
                continue;
            }
            let pauses = if self.sessions.is_shared { PAUSES_PER_YIELD } else { PAUSES_ALONE };
            if idle % pauses != 0 {
                pause();
                continue;
            }
            self.look_at_clock();
            if self.park_idle() {
                self.inbox.bell.lie_down();
                // What came before that nobody has rung for.
                if !self.obey() && S::lie_down(&mut self.sessions) {
                    self.sleep();
                    // Before what sessions have asked for meanwhile.
                    self.obey();
                }
                self.inbox.bell.rise();
                idle = 0;
            } else {
                self.give_way();
            }
        }
    }

    /// Lets others run on this core, and learns whether there are any.
    fn give_way(&mut self) {
        yield_now();
        let before = self.sessions.engine.now_ns;
        self.look_at_clock();
        let took_ns = self.sessions.engine.now_ns.saturating_sub(before);
        self.sessions.is_shared = took_ns > YIELD_NS_MAX;
        self.sessions.engine.awaited.yielded(took_ns, before + took_ns);
    }

    /// One round over everything; false when there was nothing to do.
    pub fn sweep(&mut self) -> bool {
        self.sweeps = self.sweeps.wrapping_add(1);
        if self.sweeps % SWEEPS_PER_LOOK == 0 {
            self.look_at_clock();
        }
        // Orders that nobody expects may wait for a few sweeps: their bell ends a sleep.
        let is_due = self.sessions.engine.awaited.is_any() || self.sweeps % SWEEPS_PER_ORDER == 0;
        let mut did = is_due && self.obey();
        let engine = &mut self.sessions.engine;
        if engine.flying > 0 && engine.requests.has_completions() {
            self.sessions.release();
        }
        did |= self.reap();
        did |= S::collect(&mut self.sessions);
        did |= self.sessions.listen();
        // Whoever asks may know already of what was ordered before: it is done before an operation is begun.
        if !self.sessions.fair.is_empty() {
            did |= self.obey_all();
        }
        did |= self.sessions.take_turns();
        self.sessions.engine.submit();
        S::swept(&mut self.sessions);
        if did {
            self.sessions.ring_for_many();
        }
        did
    }

    /// Obeys all orders that there are, or so many that others would wait for long.
    fn obey_all(&mut self) -> bool {
        let rounds = (0..ROUNDS_OF_ORDERS).take_while(|_| self.obey());
        rounds.count() > 0
    }

    fn obey(&mut self) -> bool {
        for obeyed in 0..ORDERS_AT_ONCE {
            match self.inbox.orders.try_recv() {
                Ok(order) => self.carry_out(order),
                // All loops hold an end of it, so that `Stop` says that it is over.
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                    let looks = &mut self.sessions.engine.looks_for_orders;
                    *looks = looks.wrapping_add(1);
                    return obeyed > 0;
                }
            }
        }
        true
    }

    /// Carries out an order.
    pub fn carry_out(&mut self, order: Order<S>) {
        match order {
            Order::Begin(id, new) => {
                // The control plane has the same limit, and looks first.
                if self.sessions.begin(id, *new).is_err() {
                    self.sessions.engine.tell_broken(id, "its server loop is full");
                }
            }
            Order::End(id) => self.end(id),
            Order::Service(order) => S::carry_out(&mut self.sessions, order),
            Order::Stop => self.is_over = true,
        }
    }

    /// Forgets a session. Requests of its that the kernel has keep its window until they are done.
    fn end(&mut self, id: ObjectId) {
        let Some((seat, mut session)) = self.sessions.take_out(id) else { return };
        let engine = &mut self.sessions.engine;
        S::left(engine, seat, &mut session);
        let flights = session.flights.iter().chain(session.parked);
        flights.for_each(|flight| engine.requests.cancel(flight));
        engine.requests.forget(&session.window);
        session.completions.end();
        let objects: Vec<_> = session.objects.iter().map(|(id, _)| id).collect();
        for object in objects.into_iter().filter_map(|object| session.objects.remove(object)) {
            S::close(engine, id, object);
        }
    }

    /// Takes what the kernel has answered.
    fn reap(&mut self) -> bool {
        for reaped in 0..REAPED_AT_ONCE {
            let engine = &mut self.sessions.engine;
            let Some((token, result)) = engine.requests.reap() else { return reaped > 0 };
            if matches!(token, Token::Service(_) | Token::Operation(_)) {
                engine.flying = engine.flying.saturating_sub(1);
            }
            match token {
                Token::Inbox => self.hear_inbox(),
                Token::Bell(seat) => self.sessions.unpark(seat),
                Token::Service(request) => S::completed(&mut self.sessions, request, result),
                Token::Operation(id) => self.sessions.completed(id, result),
            }
        }
        true
    }

    fn hear_inbox(&mut self) {
        self.is_bell_watched = false;
        self.inbox.bell.drain();
    }

    /// What has to be done because time went by.
    fn look_at_clock(&mut self) {
        self.sessions.pass_time(monotonic_ns());
        S::clock(&mut self.sessions);
    }

    /// Parks who has been silent; true when nobody is awake and nothing is left to do.
    fn park_idle(&mut self) -> bool {
        let Inbox { spin_ns, spin_flying_ns, .. } = self.inbox;
        let Engine { flying, awaited, now_ns, .. } = &self.sessions.engine;
        let is_long = *flying > 0 || awaited.is_any() && !awaited.pays(*now_ns);
        self.sessions.park_idle(if is_long { spin_flying_ns } else { spin_ns })
    }

    fn sleep(&mut self) {
        let limit = self.sessions.next_ns();
        self.sessions.engine.awaited.sleeps();
        let engine = &mut self.sessions.engine;
        if !self.is_bell_watched {
            let event = self.inbox.bell.event();
            self.is_bell_watched = engine.requests.readable(Token::Inbox, event).is_ok();
        }
        let left = limit.map(|next| next.saturating_sub(engine.now_ns).max(1));
        // An order that nothing announces is found by looking.
        let unheard = (!self.is_bell_watched).then_some(UNHEARD_NS_MAX);
        let left = left.into_iter().chain(unheard).min().map(Duration::from_nanos);
        Counts::add(&engine.counts.sleeps, 1);
        if let Err(error) = engine.requests.sleep(left) {
            warn!(%error, "the server loop cannot sleep");
            yield_now();
        }
        self.look_at_clock();
    }
}
