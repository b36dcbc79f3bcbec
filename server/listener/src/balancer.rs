//! What the control plane does with a listener's thread: adds and ends workers and sockets, and looks.
//!
//! The thread makes calls that take the kernel's lock of a socket that workers have as well: it accepts
//! on the listening socket, and takes back what lies in a queue. A worker that faults within a call of
//! its own, in memory whose faults it answers itself, has that lock for as long as it pleases, and
//! nothing that is said to the kernel keeps the thread from waiting for it. So each listener has a
//! thread of its own. Who can hold that one has the listener's socket, and could hold it against the
//! other workers without Heliostat as well; and the control plane waits for no thread: what it wants is
//! an order, and what it knows is what the thread told last.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Holder;
use heliostat_service_listener::{Seat, Standing};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{eventfd, EventfdFlags};
use rustix::io::ioctl_fionbio;

use crate::accepting::Accepting;
use crate::closing::{Foreign, Owner};
use crate::listener::SharedListener;
use crate::orders::Orders;
use crate::shares::{Counted, HeldShares};
use crate::state::{ListenerState, Poll, State};
use crate::thread::serve;
use crate::worker::Worker;

/// Descriptors of a worker: the queue's two ends, the set in which the kernel counts, the worker's own.
const WORKER_DESCRIPTORS: u64 = 4;
/// Descriptors of a thread: its set twice, its bell, its ring.
pub const THREAD_DESCRIPTORS: u64 = 4;

/// One listener's thread, as the control plane has it. Dropping it ends the thread.
pub struct Balancer {
    orders: Arc<Orders>,
    poll: Poll,
    owner: Owner,
    held: HeldShares,
    next_token: Cell<u64>,
    workers: Cell<u64>,
    thread: Arc<JoinHandle<()>>,
}

/// A thread that is to end: one that a worker keeps is its owner's until it lets go.
pub struct Ending {
    /// Whose it is.
    pub holder: Holder,
    thread: Arc<JoinHandle<()>>,
}

impl Ending {
    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }
}

/// What a new worker gets.
pub struct WorkerEnds {
    /// Its end of the queue.
    pub queue: OwnedFd,
    /// The page by which it tells its load.
    pub page: OwnedFd,
}

impl Balancer {
    /// Starts the thread of a listener without sockets and workers. `held` says how many connections
    /// there may be that nobody has taken.
    ///
    /// # Errors
    /// The kernel has no descriptor or no thread for it.
    pub fn start(id: ObjectId, owner: Owner, rule: Rule, held: HeldShares) -> io::Result<Balancer> {
        Self::start_with(SharedListener::new(id, owner, rule), held, Accepting::best)
    }

    /// The same, with the way to accept.
    pub(crate) fn start_with(
        listener: SharedListener,
        held: HeldShares,
        accepting: impl FnOnce(&OwnedFd) -> io::Result<Accepting>,
    ) -> io::Result<Balancer> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(0), EventFlags::IN)?;
        let poll = Poll(Arc::new(rustix::io::fcntl_dupfd_cloexec(&epoll, 0)?));
        let owner = listener.owner.clone();
        let state = State::new(listener, poll.clone(), accepting(&bell)?, held.clone());
        let orders = Arc::new(Orders::new(bell));
        let served = orders.clone();
        let thread = std::thread::Builder::new().name("listener".into());
        let thread = Arc::new(thread.spawn(move || serve(&served, state, &epoll))?);
        let (next_token, workers) = (Cell::new(1), Cell::new(0));
        Ok(Balancer { orders, poll, owner, held, next_token, workers, thread })
    }

    /// Whose it is.
    pub fn holder(&self) -> Holder {
        self.owner.holder
    }

    /// One more listening socket, which accepts without waiting from now on.
    ///
    /// # Errors
    /// The kernel does not watch it.
    pub fn add_socket(&self, socket: Foreign) -> io::Result<()> {
        let token = self.next_token();
        // Before its worker is answered, which may set the socket back to what it was at any time after.
        // Of the open file alone: F_SETFL may ask for the socket's lock, which a worker may hold (O_ASYNC).
        let _ = ioctl_fionbio(&socket, true);
        // For nothing, until the thread knows it.
        self.poll.watch(&socket, token, EventFlags::empty())?;
        let counted = self.count(1);
        self.order(move |state, _| {
            let _counted = counted;
            state.add_socket(token, socket);
        });
        Ok(())
    }

    /// One more worker, which is given nothing before it is ready.
    ///
    /// # Errors
    /// The kernel has no sockets or no memory for it; `QuotaExceeded` where the thread is behind.
    pub fn add_worker(&self, worker: ObjectId, place: u32) -> io::Result<WorkerEnds> {
        self.check()?;
        let (made, queue, page) = Worker::create(&self.owner)?;
        let counted = self.count(WORKER_DESCRIPTORS);
        self.workers.set(self.workers.get() + 1);
        self.order(move |state, _| {
            let _counted = counted;
            state.listener.workers.insert(worker, made);
            state.listener.balance.add(Seat::new(worker, place));
        });
        Ok(WorkerEnds { queue, page })
    }

    /// A worker is given connections from now on, unless it drains.
    ///
    /// # Errors
    /// The thread is behind.
    pub fn ready(&self, worker: ObjectId) -> io::Result<()> {
        self.stand(worker, |standing| match standing {
            Standing::Draining => Standing::Draining,
            _ => Standing::Ready,
        })
    }

    /// A worker that drained is given connections again.
    ///
    /// # Errors
    /// The thread is behind.
    pub fn resume(&self, worker: ObjectId) -> io::Result<()> {
        self.stand(worker, |_| Standing::Ready)
    }

    fn stand(
        &self,
        worker: ObjectId,
        to: impl Fn(Standing) -> Standing + Send + 'static,
    ) -> io::Result<()> {
        self.ask(move |state, now| {
            let seat = state.listener.balance.seat_mut(worker);
            seat.into_iter().for_each(|seat| seat.standing = to(seat.standing));
            state.settle(now);
        })
    }

    /// A worker is given nothing more, and others what it has not taken.
    ///
    /// # Errors
    /// The thread is behind.
    pub fn drain(&self, worker: ObjectId) -> io::Result<()> {
        self.ask(move |state, now| {
            state.drain(worker);
            state.settle(now);
        })
    }

    /// A worker is one no more.
    pub fn end_worker(&self, worker: ObjectId) {
        let counted = self.worker_goes();
        self.order(move |state, now| {
            let _counted = counted;
            state.end_worker(worker, now);
        });
    }

    /// A worker is one no more, and lives.
    pub fn dismiss(&self, worker: ObjectId) {
        let counted = self.worker_goes();
        self.order(move |state, now| {
            let _counted = counted;
            state.dismiss(worker, now);
        });
    }

    /// The listener is given up: its workers accept by themselves. The thread ends after what it is in,
    /// and what was ordered.
    pub fn end(self) -> Ending {
        let counted = self.count(self.workers.get() * WORKER_DESCRIPTORS + THREAD_DESCRIPTORS);
        self.order(move |state, _| {
            let _counted = counted;
            state.end();
        });
        Ending { holder: self.owner.holder, thread: self.thread.clone() }
    }

    /// Another rule for connections to come.
    ///
    /// # Errors
    /// The thread is behind.
    pub fn set_rule(&self, rule: Rule) -> io::Result<()> {
        self.ask(move |state, _| state.listener.balance.set_rule(rule))
    }

    /// Asks this plug-in from now on, instead of another.
    ///
    /// # Errors
    /// The kernel does not watch it, or the thread is behind.
    pub fn set_plugin(&self, socket: Foreign) -> io::Result<()> {
        self.check()?;
        let token = self.next_token();
        self.poll.watch(&socket, token, EventFlags::empty())?;
        let counted = self.count(1);
        self.ask(move |state, now| {
            let _counted = counted;
            state.set_plugin(token, socket, now);
        })
    }

    /// What people are told: what the thread told last.
    pub fn view(&self) -> ListenerState {
        self.orders.told()
    }

    fn next_token(&self) -> u64 {
        self.next_token.replace(self.next_token.get() + 2)
    }

    /// What the thread has still to let go of is its owner's until then.
    fn count(&self, amount: u64) -> Counted {
        self.held.count(self.owner.holder, amount)
    }

    fn worker_goes(&self) -> Counted {
        self.workers.set(self.workers.get().saturating_sub(1));
        self.count(WORKER_DESCRIPTORS)
    }

    fn check(&self) -> io::Result<()> {
        match self.orders.is_full() {
            true => Err(io::ErrorKind::QuotaExceeded.into()),
            false => Ok(()),
        }
    }

    /// Orders what is asked for at will: so there is a limit.
    fn ask(&self, work: impl FnOnce(&mut State, u64) + Send + 'static) -> io::Result<()> {
        self.check()?;
        self.order(work);
        Ok(())
    }

    fn order(&self, work: impl FnOnce(&mut State, u64) + Send + 'static) {
        self.orders.give(Box::new(work));
    }

    /// The thread does nothing until what it gives is dropped.
    #[cfg(test)]
    pub(crate) fn stop_for_now(&self) -> std::sync::mpsc::Sender<()> {
        let (stopped, heard) = std::sync::mpsc::channel();
        let (go_on, waits) = std::sync::mpsc::channel();
        self.order(move |_, _| {
            let _ = stopped.send(());
            let _: Result<(), _> = waits.recv();
        });
        let _: Result<(), _> = heard.recv();
        go_on
    }

    /// What there is when all orders before have been carried out.
    #[cfg(test)]
    pub(crate) fn look(&self) -> ListenerState {
        let (told, heard) = std::sync::mpsc::channel();
        self.order(move |state, now| _ = told.send(state.view(now)));
        heard.recv_timeout(std::time::Duration::from_secs(20)).expect("the thread answers")
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.order(|state, _| state.is_stopping = true);
    }
}
