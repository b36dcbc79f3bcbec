//! The state of a listener's thread: its listener, and what each event is about.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use heliostat_abi::listener::limits::PEEKED_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Holder, Shares};
use heliostat_service_listener::{Seat, Standing};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::accepting::Accepting;
use crate::listener::{Counts, SharedListener};
use crate::shares::HeldShares;
use crate::worker::Worker;

/// One listener may have this part of its owner's connections that nobody has taken.
const AWAITED_PART: u64 = 2;
/// The token of all queues: whoever has taken something, there is room.
pub const QUEUES: u64 = 2;

/// What became ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A listening socket.
    Socket,
    /// A worker has taken something.
    Queue,
    /// A connection whose first bytes are awaited, by its number.
    Held(u64),
    /// A plug-in.
    Plugin,
}

/// The set of what is waited for.
#[derive(Clone)]
pub struct Poll(pub Arc<OwnedFd>);

impl Poll {
    /// Watches a descriptor for these events.
    pub fn watch(&self, fd: impl AsFd, token: u64, flags: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.0, fd, EventData::new_u64(token), flags)
    }

    /// Watches it for others.
    pub fn change(&self, fd: impl AsFd, token: u64, flags: EventFlags) {
        // It fails only where the descriptor is not in the set.
        let _ = epoll::modify(&self.0, fd, EventData::new_u64(token), flags);
    }

    /// Watches it no more: a descriptor that others have as well would stay in the set.
    pub fn ignore(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.0, fd);
    }
}

/// The state of the thread.
pub struct State {
    /// The listener.
    pub listener: SharedListener,
    /// What each token stands for.
    pub sources: HashMap<u64, Source>,
    next_token: u64,
    /// What is waited for.
    pub poll: Poll,
    /// How connections are accepted.
    pub accepting: Accepting,
    /// Connections that nobody has taken, by whose they are, of all threads.
    pub held: HeldShares,
    /// The thread ends.
    pub is_stopping: bool,
}

/// The listener, for people.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ListenerState {
    /// What is counted.
    pub counts: Counts,
    /// Connections that nobody has yet.
    pub held: usize,
    /// Whether connections are accepted now.
    pub is_open: bool,
    /// Whether a plug-in is asked.
    pub has_plugin: bool,
    /// Its workers.
    pub workers: HashMap<ObjectId, WorkerState>,
}

/// One worker, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerState {
    /// Whether it is given connections.
    pub standing: Standing,
    /// Open connections, as far as is known.
    pub connections: u64,
    /// That and what it says it has to do beside.
    pub load: u64,
    /// Connections given to it and not taken back.
    pub given: u64,
    /// Connections in its queue.
    pub untaken: u64,
    /// How often it took nothing for too long.
    pub passed: u64,
    /// How often it said what cannot be.
    pub lies: u64,
    /// Whether its word counts.
    pub is_believed: bool,
    /// Whether the kernel counts its connections.
    pub is_audited: bool,
}

impl WorkerState {
    /// One of which its thread has told nothing yet.
    pub const JOINED: WorkerState = WorkerState {
        standing: Standing::Joined,
        connections: 0,
        load: 0,
        given: 0,
        untaken: 0,
        passed: 0,
        lies: 0,
        is_believed: true,
        is_audited: false,
    };
}

impl State {
    /// With a listener that has no sockets and workers yet.
    pub fn new(
        listener: SharedListener,
        poll: Poll,
        accepting: Accepting,
        held: HeldShares,
    ) -> State {
        let sources = HashMap::from([(QUEUES, Source::Queue)]);
        let next_token = QUEUES + 2;
        State { listener, sources, next_token, poll, accepting, held, is_stopping: false }
    }

    /// A token for something that is watched. They are even: the control plane's are odd.
    pub fn token(&mut self, source: Source) -> u64 {
        let token = self.next_token;
        self.next_token += 2;
        self.sources.insert(token, source);
        token
    }

    /// A worker is one no more: what lies in its queue is others'.
    pub fn end_worker(&mut self, worker: ObjectId, now_ns: u64) {
        self.take_back_all(worker);
        self.remove(worker, now_ns);
    }

    /// A worker that lives is one no more. Where there is no other it keeps what lies in its queue, and
    /// gets what nobody has yet: it reads that to its end before it accepts by itself.
    pub fn dismiss(&mut self, worker: ObjectId, now_ns: u64) {
        if !self.listener.workers.keys().eq([&worker]) {
            return self.end_worker(worker, now_ns);
        }
        self.release_all();
        self.listener.part_with_all();
        self.remove(worker, now_ns);
    }

    fn remove(&mut self, worker: ObjectId, now_ns: u64) {
        self.listener.balance.remove(worker);
        if let Some(gone) = self.listener.workers.remove(&worker) {
            self.poll.ignore(gone.queue.writing());
        }
        self.settle(now_ns);
    }

    /// The listener is given up, and the thread ends. Its workers keep what lies in their queues, and
    /// get what nobody has yet.
    pub fn end(&mut self) {
        self.release_all();
        let listener = &mut self.listener;
        listener.part_with_all();
        self.held.change(listener.owner.holder, std::mem::take(&mut listener.counted), 0);
        // Before the threads that accept are waited for, which may be kept.
        listener.workers.clear();
        listener.sockets.clear();
        listener.plugin = None;
        self.is_stopping = true;
    }

    /// What lies in a worker's queue is taken back, to be given to others, and before those that came
    /// later and were given to nobody.
    pub fn take_back_all(&mut self, worker: ObjectId) {
        let listener = &mut self.listener;
        let Some(from) = listener.workers.get_mut(&worker) else { return };
        let taken: Vec<_> = std::iter::from_fn(|| from.queue.take_back()).collect();
        for (handed, fd) in taken.into_iter().rev() {
            from.ghosts.insert(handed.serial);
            listener.balance.seat_mut(worker).into_iter().for_each(Seat::take_back);
            listener.counts.taken_back += 1;
            listener.held.unplaced.push_front((handed, fd));
        }
    }

    /// Counts what the listener holds against its owner's share, and looks whether that has room.
    pub fn count_held(&mut self) {
        let listener = &mut self.listener;
        let (holder, held) = (listener.owner.holder, listener.held.len() as u64);
        self.held.change(holder, listener.counted, held);
        listener.counted = held;
        let elsewhere = listener.owner.closer.waiting();
        listener.lacks_share = self.held.check(holder, elsewhere).is_err();
    }

    /// For so many connections something is awaited: other listeners of the owner's have room.
    pub fn awaited_max(&self) -> usize {
        let Holder { is_trusted, .. } = self.listener.owner.holder;
        let Shares { user, trusted, .. } = self.held.shares();
        let share = if is_trusted { trusted } else { user };
        usize::try_from(share / AWAITED_PART).unwrap_or(PEEKED_MAX).clamp(1, PEEKED_MAX)
    }

    /// What people are told.
    pub fn view(&mut self, now_ns: u64) -> ListenerState {
        let listener = &mut self.listener;
        listener.refresh(now_ns);
        let workers = &listener.workers;
        let seats = listener.balance.seats().iter();
        let told = seats.map(|seat| (seat.worker, worker_state(seat, workers.get(&seat.worker))));
        ListenerState {
            counts: listener.counts,
            held: listener.held.len(),
            is_open: listener.is_open,
            has_plugin: listener.plugin.is_some(),
            workers: told.collect(),
        }
    }
}

fn worker_state(seat: &Seat, worker: Option<&Worker>) -> WorkerState {
    WorkerState {
        standing: seat.standing,
        connections: seat.load.connections(),
        load: seat.load.value(),
        given: seat.load.given(),
        untaken: seat.untaken(),
        passed: seat.passed,
        lies: seat.load.lies(),
        is_believed: seat.load.is_believed(),
        is_audited: worker.is_some_and(|worker| worker.audit.is_some()),
    }
}
