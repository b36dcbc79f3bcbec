//! What the control plane does with the thread: adds and ends listeners and workers, and looks.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use heliostat_service_grant::{Holder, Shares, Used};
use heliostat_service_listener::{Seat, Standing};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{eventfd, EventfdFlags};
use rustix::fs::OFlags;

use crate::accepting::Accepting;
use crate::closing::{Foreign, Owner};
use crate::listener::{Listening, SharedListener};
use crate::plugin::Plugin;
use crate::state::{ListenerState, Poll, Source, State};
use crate::thread::Shared;
use crate::worker::Worker;

/// The thread, and what is shared with it. Dropping it ends the thread.
pub struct Balancer(Arc<Shared>);

/// What a new worker gets.
pub struct WorkerEnds {
    /// Its end of the queue.
    pub queue: OwnedFd,
    /// The page by which it tells its load.
    pub page: OwnedFd,
}

impl Balancer {
    /// Starts the thread. `held` says how many connections there may be that nobody has taken.
    ///
    /// # Errors
    /// The kernel has no descriptor or no thread for it.
    pub fn start(held: Shares) -> io::Result<Balancer> {
        Self::start_with(held, Accepting::best)
    }

    /// The same, with the way to accept.
    pub(crate) fn start_with(
        held: Shares,
        accepting: impl FnOnce(&OwnedFd) -> io::Result<Accepting>,
    ) -> io::Result<Balancer> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(0), EventFlags::IN)?;
        let poll = Poll(rustix::io::fcntl_dupfd_cloexec(&epoll, 0)?);
        let state = State::new(poll, accepting(&bell)?, held);
        let shared = Arc::new(Shared { state: Mutex::new(state), bell });
        let served = shared.clone();
        let thread = std::thread::Builder::new().name("listeners".into());
        thread.spawn(move || served.serve(&epoll))?;
        Ok(Balancer(shared))
    }

    /// A listener without sockets and workers.
    pub fn add_listener(&self, id: ObjectId, owner: Owner, rule: Rule) {
        // Random by the keys of the standard library's hasher.
        let seed = RandomState::new().hash_one(id.index);
        let listener = SharedListener::new(owner, rule, seed);
        self.0.with(|state| state.listeners.insert(id, listener));
    }

    /// One more listening socket of a listener, which accepts without waiting from now on.
    ///
    /// # Errors
    /// The kernel does not watch it.
    pub fn add_socket(&self, id: ObjectId, socket: Foreign) -> io::Result<()> {
        let flags = rustix::fs::fcntl_getfl(&socket)?;
        rustix::fs::fcntl_setfl(&socket, flags | OFlags::NONBLOCK)?;
        let fd = Arc::new(socket);
        self.change(|state, _| {
            let token = state.token(Source::Socket(id));
            let Some(listener) = state.listeners.get_mut(&id) else { return Ok(()) };
            let flags = if listener.is_open { EventFlags::IN } else { EventFlags::empty() };
            state.poll.watch(&*fd, token, flags)?;
            listener.sockets.push(Listening { token, fd, is_away: false });
            Ok(())
        })
    }

    /// One more worker of a listener, which is given nothing before it is ready.
    ///
    /// # Errors
    /// The kernel has no sockets or no memory for it.
    pub fn add_worker(&self, id: ObjectId, worker: ObjectId, place: u32) -> io::Result<WorkerEnds> {
        let owner = self.0.with(|state| state.listeners.get(&id).map(|it| it.owner.clone()));
        let owner = owner.ok_or(io::ErrorKind::NotFound)?;
        let (made, queue, page) = Worker::create(worker, &owner)?;
        self.change(|state, _| {
            if let Some(listener) = state.listeners.get_mut(&id) {
                listener.workers.insert(worker, made);
                listener.balance.add(Seat::new(worker, place));
            }
        });
        Ok(WorkerEnds { queue, page })
    }

    /// A worker is given connections from now on, unless it drains.
    pub fn ready(&self, id: ObjectId, worker: ObjectId) {
        self.stand(id, worker, |standing| match standing {
            Standing::Draining => Standing::Draining,
            _ => Standing::Ready,
        });
    }

    /// A worker that drained is given connections again.
    pub fn resume(&self, id: ObjectId, worker: ObjectId) {
        self.stand(id, worker, |_| Standing::Ready);
    }

    fn stand(&self, id: ObjectId, worker: ObjectId, to: impl Fn(Standing) -> Standing) {
        self.change(|state, now| {
            let listener = state.listeners.get_mut(&id);
            let seat = listener.and_then(|listener| listener.balance.seat_mut(worker));
            seat.into_iter().for_each(|seat| seat.standing = to(seat.standing));
            state.settle(id, now);
        });
    }

    /// A worker is given nothing more, and others what it has not taken.
    pub fn drain(&self, id: ObjectId, worker: ObjectId) {
        self.change(|state, now| {
            state.drain(id, worker);
            state.settle(id, now);
        });
    }

    /// A worker is one no more.
    pub fn end_worker(&self, id: ObjectId, worker: ObjectId) {
        self.change(|state, now| state.end_worker(id, worker, now));
    }

    /// A worker is one no more, and lives.
    pub fn dismiss(&self, id: ObjectId, worker: ObjectId) {
        self.change(|state, now| state.dismiss(id, worker, now));
    }

    /// A listener is given up: its workers accept by themselves.
    pub fn end_listener(&self, id: ObjectId) {
        self.change(|state, _| state.end_listener(id));
    }

    /// New shares of connections that nobody has taken.
    pub fn set_held(&self, held: Shares) {
        self.change(|state, _| state.held.set_shares(held));
    }

    /// How many of those there are.
    pub fn held(&self, holder: Holder) -> Used {
        self.0.with(|state| state.held.used(holder))
    }

    /// Another rule for connections to come.
    pub fn set_rule(&self, id: ObjectId, rule: Rule) {
        self.change(|state, _| {
            let listener = state.listeners.get_mut(&id);
            listener.into_iter().for_each(|listener| listener.balance.set_rule(rule));
        });
    }

    /// Asks this plug-in from now on, instead of another.
    ///
    /// # Errors
    /// The kernel does not watch it.
    pub fn set_plugin(&self, id: ObjectId, socket: Foreign) -> io::Result<()> {
        self.change(|state, now| {
            state.end_plugin(id, now);
            let token = state.token(Source::Plugin(id));
            state.poll.watch(&socket, token, EventFlags::IN)?;
            if let Some(listener) = state.listeners.get_mut(&id) {
                listener.plugin = Some(Plugin::new(socket, token));
            }
            state.settle(id, now);
            Ok(())
        })
    }

    /// What people are told of a listener.
    pub fn view(&self, id: ObjectId) -> Option<ListenerState> {
        self.0.with(|state| state.view(id, monotonic_ns()))
    }

    fn change<T>(&self, work: impl FnOnce(&mut State, u64) -> T) -> T {
        let done = self.0.with(|state| work(state, monotonic_ns()));
        self.ring();
        done
    }

    fn ring(&self) {
        // It is full only where the thread has not read it for very long, and will.
        let _ = rustix::io::write(&self.0.bell, &1u64.to_ne_bytes());
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.0.with(|state| state.is_stopping = true);
        self.ring();
    }
}
