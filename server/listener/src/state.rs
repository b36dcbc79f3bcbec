//! All listeners, and what each event of the thread is about.

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
use crate::closing::Owner;
use crate::listener::{Counts, SharedListener};
use crate::shares::HeldShares;
use crate::worker::Worker;

/// One listener may have this part of its owner's connections that nobody has taken.
const AWAITED_PART: u64 = 2;

/// What became ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A listening socket.
    Socket(ObjectId),
    /// A worker has taken something.
    Queue(ObjectId, ObjectId),
    /// A connection whose first bytes are awaited, by its number.
    Held(ObjectId, u64),
    /// A plug-in.
    Plugin(ObjectId),
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
    /// Every listener.
    pub listeners: HashMap<ObjectId, SharedListener>,
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

/// One listener, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// Without listeners.
    pub fn new(poll: Poll, accepting: Accepting, held: HeldShares) -> State {
        State {
            listeners: HashMap::new(),
            sources: HashMap::new(),
            next_token: 2,
            poll,
            accepting,
            held,
            is_stopping: false,
        }
    }

    /// A token for something that is watched. They are even: the control plane's are odd.
    pub fn token(&mut self, source: Source) -> u64 {
        let token = self.next_token;
        self.next_token += 2;
        self.sources.insert(token, source);
        token
    }

    /// A worker is one no more: what lies in its queue is others'.
    pub fn end_worker(&mut self, id: ObjectId, worker: ObjectId, now_ns: u64) {
        self.take_back_all(id, worker);
        let Some(listener) = self.listeners.get_mut(&id) else { return };
        listener.balance.remove(worker);
        if let Some(gone) = listener.workers.remove(&worker) {
            self.poll.ignore(gone.queue.writing());
        }
        self.sources.retain(|_, source| *source != Source::Queue(id, worker));
        self.settle(id, now_ns);
    }

    /// A worker that lives is one no more. Where there is no other it keeps what lies in its queue, and
    /// gets what nobody has yet: it reads that to its end before it accepts by itself.
    pub fn dismiss(&mut self, id: ObjectId, worker: ObjectId, now_ns: u64) {
        let workers = self.listeners.get(&id).map(|listener| &listener.workers);
        if workers.is_some_and(|all| all.len() == 1 && all.contains_key(&worker)) {
            self.release_all(id);
            let Some(listener) = self.listeners.get_mut(&id) else { return };
            listener.part_with_all();
            for gone in std::mem::take(&mut listener.workers).into_values() {
                self.poll.ignore(gone.queue.writing());
            }
        }
        self.end_worker(id, worker, now_ns);
    }

    /// A listener is given up. Its workers keep what lies in their queues, and get what nobody has yet.
    pub fn end_listener(&mut self, id: ObjectId) {
        self.release_all(id);
        let Some(mut gone) = self.listeners.remove(&id) else { return };
        gone.part_with_all();
        for socket in &gone.sockets {
            // Its workers have it still.
            self.poll.ignore(&*socket.fd);
        }
        gone.workers.values().for_each(|worker| self.poll.ignore(worker.queue.writing()));
        if let Some(plugin) = &gone.plugin {
            self.poll.ignore(plugin);
        }
        self.held.change(gone.owner.holder, gone.counted, 0);
        let is_its = |source: &Source| match source {
            Source::Socket(it)
            | Source::Queue(it, _)
            | Source::Held(it, _)
            | Source::Plugin(it) => *it == id,
        };
        self.sources.retain(|_, source| !is_its(source));
    }

    /// What lies in a worker's queue is taken back, to be given to others, and before those that came
    /// later and were given to nobody.
    pub fn take_back_all(&mut self, id: ObjectId, worker: ObjectId) {
        let Some(listener) = self.listeners.get_mut(&id) else { return };
        let Some(from) = listener.workers.get_mut(&worker) else { return };
        let taken: Vec<_> = std::iter::from_fn(|| from.queue.take_back()).collect();
        for (handed, fd) in taken.into_iter().rev() {
            from.ghosts.insert(handed.serial);
            listener.balance.seat_mut(worker).into_iter().for_each(Seat::take_back);
            listener.counts.taken_back += 1;
            listener.held.unplaced.push_front((handed, fd));
        }
    }

    /// Counts what a listener holds against its owner's share, and looks whether that has room.
    pub fn count_held(&mut self, id: ObjectId) {
        let Some(listener) = self.listeners.get_mut(&id) else { return };
        let (holder, held) = (listener.owner.holder, listener.held.len() as u64);
        self.held.change(holder, listener.counted, held);
        listener.counted = held;
        let elsewhere = listener.owner.closer.waiting();
        listener.lacks_share = self.held.check(holder, elsewhere).is_err();
    }

    /// For so many connections of one listener something is awaited: others of its owner's have room.
    pub fn awaited_max(&self, owner: &Owner) -> usize {
        let Holder { is_trusted, .. } = owner.holder;
        let Shares { user, trusted, .. } = self.held.shares();
        let share = if is_trusted { trusted } else { user };
        usize::try_from(share / AWAITED_PART).unwrap_or(PEEKED_MAX).clamp(1, PEEKED_MAX)
    }

    /// What people are told of a listener.
    pub fn view(&mut self, id: ObjectId, now_ns: u64) -> Option<ListenerState> {
        let listener = self.listeners.get_mut(&id)?;
        listener.refresh(now_ns);
        let workers = &listener.workers;
        let seats = listener.balance.seats().iter();
        let told = seats.map(|seat| (seat.worker, worker_state(seat, workers.get(&seat.worker))));
        Some(ListenerState {
            counts: listener.counts,
            held: listener.held.len(),
            is_open: listener.is_open,
            has_plugin: listener.plugin.is_some(),
            workers: told.collect(),
        })
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
