//! The thread: waits, does what came, lets time pass, and counts what workers have open.
//!
//! It has one listener, and the state is its own: whoever keeps it asleep in the kernel keeps nobody
//! else (`balancer`).

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use heliostat_service_listener::Seat;
use rustix::event::epoll::{self, Event, EventFlags};
use rustix::event::Timespec;

use crate::audit::Audit;
use crate::orders::Orders;
use crate::state::{Source, State};

/// Events taken at once.
const EVENTS_MAX: usize = 32;
/// A queue that is not emptied is looked at so often.
const LOOK_NS: u64 = 50_000_000;
/// What people are told is told at most so often, but for what was ordered.
const TELL_NS: u64 = 2_000_000;
/// One count takes so long for each connection, and shall take one part in twenty of the time.
const AUDIT_NS_PER_CONNECTION: u64 = 50_000;

/// A count that is due.
struct Due {
    worker: ObjectId,
    audit: Arc<Audit>,
    given: u64,
}

/// When the thread last told what there is.
#[derive(Default)]
struct Telling {
    told_ns: u64,
    /// Something may have changed since.
    is_due: bool,
}

/// Serves until it is told to stop.
pub fn serve(orders: &Orders, mut state: State, epoll: &OwnedFd) {
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
    let mut telling = Telling::default();
    loop {
        let next = [state.next_deadline_ns(), telling.next_ns()].into_iter().flatten().min();
        let timeout = next.map(timespec);
        events.clear();
        let room = rustix::buffer::spare_capacity(&mut events);
        // Interrupted, it waits again.
        let _ = epoll::wait(epoll, room, timeout.as_ref());
        // Orders come first: they hold for connections that were made after them. The bell is read
        // before what it rings for is taken, so that what comes meanwhile rings again.
        let _ = rustix::io::read(&orders.bell, &mut [0; 8]);
        let given = orders.take();
        let is_ordered = !given.is_empty();
        given.into_iter().for_each(|order| order(&mut state, monotonic_ns()));
        if state.is_stopping {
            return state.accepting.end();
        }
        let now = monotonic_ns();
        state.take_accepted(now);
        for event in &events {
            let (data, flags) = (event.data, event.flags);
            state.attend(data.u64(), flags, now);
        }
        state.pass_time(now);
        for due in state.due_audits(now) {
            state.counted(&due, due.audit.open(), monotonic_ns());
        }
        telling.tell(orders, &mut state, is_ordered);
    }
}

impl Telling {
    fn next_ns(&self) -> Option<u64> {
        self.is_due.then_some(self.told_ns + TELL_NS)
    }

    fn tell(&mut self, orders: &Orders, state: &mut State, is_ordered: bool) {
        let now = monotonic_ns();
        self.is_due = !is_ordered && now < self.told_ns + TELL_NS;
        if !self.is_due {
            self.told_ns = now;
            orders.tell(state.view(now));
        }
    }
}

fn timespec(at_ns: u64) -> Timespec {
    // A little later than due, so that it is due then.
    let wait = at_ns.saturating_sub(monotonic_ns()) + 100_000;
    Timespec { tv_sec: (wait / 1_000_000_000) as i64, tv_nsec: (wait % 1_000_000_000) as i64 }
}

impl State {
    fn attend(&mut self, token: u64, flags: EventFlags, now_ns: u64) {
        match self.sources.get(&token).copied() {
            None => {}
            // One that listens never says this, and would again and again while nothing is accepted.
            Some(Source::Socket) if flags.contains(EventFlags::HUP) => self.drop_socket(token),
            Some(Source::Socket) => self.accept_some(token, now_ns),
            Some(Source::Queue) => {
                self.listener.refresh(now_ns);
                self.settle(now_ns);
            }
            Some(Source::Held(serial)) => {
                let is_end =
                    flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
                self.first_bytes_came(serial, is_end, now_ns);
                self.settle(now_ns);
            }
            Some(Source::Plugin) => self.hear_plugin(now_ns),
        }
    }

    /// Deadlines of connections that nobody has, and queues that are not emptied.
    fn pass_time(&mut self, now_ns: u64) {
        let listener = &mut self.listener;
        let silent = listener.held.overdue(now_ns);
        let mut late = Vec::new();
        if listener.has_untaken() {
            listener.refresh(now_ns);
            late = listener.balance.overdue(now_ns);
        }
        let is_idle = silent.is_empty() && late.is_empty() && listener.is_open;
        silent.into_iter().for_each(|serial| self.give_up_waiting(serial, now_ns));
        late.into_iter().for_each(|worker| self.pass_over(worker, now_ns));
        if !is_idle {
            self.settle(now_ns);
        }
    }

    fn pass_over(&mut self, worker: ObjectId, now_ns: u64) {
        let seat = self.listener.balance.seat_mut(worker);
        seat.into_iter().for_each(|seat| seat.pass_over(now_ns));
        self.take_back_all(worker);
    }

    /// When something has to be done without an event; with nothing to do the thread sleeps.
    fn next_deadline_ns(&self) -> Option<u64> {
        let (now, listener) = (monotonic_ns(), &self.listener);
        let paused = Some(listener.pause_until_ns).filter(|until| *until > now);
        let looks = listener.has_untaken() || listener.lacks_share;
        let looks = looks.then_some(now + LOOK_NS);
        let audits = listener.workers.values().map(|worker| worker.audit_at_ns);
        let audit = audits.filter(|at| *at > 0).min();
        [paused, looks, audit, listener.held.next_deadline_ns()].into_iter().flatten().min()
    }

    fn due_audits(&self, now_ns: u64) -> Vec<Due> {
        let due = |seat: &Seat| {
            let worker = self.listener.workers.get(&seat.worker)?;
            let audit = worker.audit.as_ref()?;
            let is_due = worker.audit_at_ns > 0 && worker.audit_at_ns <= now_ns;
            let given = seat.load.given();
            is_due.then(|| Due { worker: seat.worker, audit: audit.clone(), given })
        };
        self.listener.balance.seats().iter().filter_map(due).collect()
    }

    fn counted(&mut self, due: &Due, open: Option<HashSet<u64>>, now_ns: u64) {
        let Some(worker) = self.listener.workers.get_mut(&due.worker) else { return };
        worker.audit_at_ns = 0;
        let Some(open) = open else {
            worker.audit = None;
            return;
        };
        worker.ghosts.retain(|serial| open.contains(serial));
        let count = (open.len() - worker.ghosts.len()) as u64;
        let Some(seat) = self.listener.balance.seat_mut(due.worker) else { return };
        let meanwhile = seat.load.given().saturating_sub(due.given);
        worker.audit_not_before_ns = now_ns + count * AUDIT_NS_PER_CONNECTION;
        seat.load.audit(count, meanwhile);
    }
}
