//! The thread that takes calls in and answers them, and those that stand in for it.
//!
//! One thread receives: the kernel then wakes program and supervisor on one processor, and an
//! answer costs a third of what it costs with several threads waiting. A call that may wait for
//! somebody else gets a thread of its own. Some wait although nobody could tell (a FIFO without a
//! writer, a file system that does not answer): a watch notices, and another thread receives.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::Arc;
use std::time::Instant;

use heliostat_backend_seal::{interrupt, own_thread, Notice, Placement, Reply};
use heliostat_base::sys::Errno;

use crate::calls;
use crate::held::{HeldUp, TICK};
use crate::mending;
use crate::net;
use crate::paths;
use crate::signals::Coming;
use crate::supervisor::Supervisor;
use crate::turn::{is_busy, Answering, Turn};

/// Threads with a call of their own at most. When all are waiting, the sealed program's next such
/// call fails with EAGAIN, and nobody else's.
const ASIDE_MAX: usize = 256;
/// Threads at most that were held up while they received. When all are, the next call that holds
/// one up fails with EINTR.
const THREADS_MAX: usize = 64;
/// Addresses of such a thread's stack: most of it is never touched.
const STACK_BYTES: usize = 1 << 20;
/// Never seen by programs: the kernel makes EINTR or a new call of it (source: linux/errno.h,
/// ERESTARTSYS). Only where this thread is sure to handle a signal now.
const RESTART: Errno = Errno(512);

/// Who receives, and how it goes.
struct Dispatcher {
    supervisor: Arc<Supervisor>,
    turn: Turn,
    /// The last call that had to end so that others are heard.
    given_up: AtomicU64,
    held: HeldUp,
    threads: AtomicUsize,
    aside: AtomicUsize,
}

/// Starts answering; returns at once. The threads end with the process.
///
/// # Errors
/// EAGAIN if there can be no thread.
pub fn start(supervisor: &Arc<Supervisor>) -> Result<(), Errno> {
    let dispatcher = Arc::new(Dispatcher {
        supervisor: supervisor.clone(),
        turn: Turn::new(),
        given_up: AtomicU64::new(0),
        held: HeldUp::default(),
        threads: AtomicUsize::new(0),
        aside: AtomicUsize::new(0),
    });
    if supervisor.made.is_some() {
        let supervisor = supervisor.clone();
        spawn(move || net::keep(&supervisor))?;
    }
    let watched = dispatcher.clone();
    spawn(move || watched.watch())?;
    spawn(move || dispatcher.receive())
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    let builder = std::thread::Builder::new().name("answers".to_owned());
    let builder = builder.stack_size(STACK_BYTES);
    builder.spawn(work).map(drop).map_err(|_| Errno(libc::EAGAIN))
}

impl Dispatcher {
    /// Answers calls until none can come any more, or another thread does it.
    fn receive(self: &Arc<Self>) {
        let own = own_thread();
        let mut placement = Placement::default();
        paths::go_apart();
        loop {
            let notice = match self.supervisor.listener.receive() {
                Ok(Some(notice)) => notice,
                Ok(None) if self.supervisor.listener.has_ended() => return,
                Ok(None) => continue,
                Err(_) => return,
            };
            let (call, caller) = (notice.id, notice.thread);
            let busy = self.turn.begin(Answering { call, thread: own, caller });
            self.supervisor.births.asks(notice.thread);
            let counts = calls::bears(&notice) && self.supervisor.births.must_count();
            match counts || calls::may_wait(&notice) {
                true => self.answer_aside(notice),
                false => self.answer(notice, &mut placement),
            }
            // Another thread receives by now.
            if !self.turn.end(busy) {
                return self.held.remove(notice.id, own);
            }
        }
    }

    fn answer_aside(self: &Arc<Self>, notice: Notice) {
        let dispatcher = self.clone();
        let is_room = self.aside.fetch_add(1, SeqCst) < ASIDE_MAX;
        let work = move || {
            let own = own_thread();
            dispatcher.held.insert(notice.id, own, notice.thread);
            dispatcher.answer(notice, &mut Placement::default());
            dispatcher.held.remove(notice.id, own);
            dispatcher.aside.fetch_sub(1, SeqCst);
        };
        if !is_room || spawn(work).is_err() {
            self.aside.fetch_sub(1, SeqCst);
            let _ = self.supervisor.listener.answer(notice.id, Reply::Fail(Errno(libc::EAGAIN)));
        }
    }

    /// Lets another thread receive when the one that does is held up.
    fn watch(self: &Arc<Self>) {
        let (mut before, mut next_look) = (self.turn.count(), Instant::now());
        // For each call that holds up, one thread comes to stand in.
        let mut relieved = None;
        loop {
            std::thread::sleep(TICK);
            let now = self.turn.count();
            match (now == before, is_busy(now)) {
                (true, true) if relieved == Some(now) => {}
                (true, true) => relieved = self.relieve(now).then_some(now),
                (true, false) => {
                    self.turn.sleep_until_busy(now, || self.held.end_orphaned(&self.supervisor));
                }
                _ => {}
            }
            if Instant::now() >= next_look {
                next_look =
                    Instant::now() + self.held.end_orphaned(&self.supervisor).unwrap_or_default();
            }
            before = self.turn.count();
        }
    }

    /// Whether another thread comes to receive.
    fn relieve(self: &Arc<Self>, now: u64) -> bool {
        let is_room = self.threads.load(SeqCst) < THREADS_MAX;
        let dispatcher = self.clone();
        if is_room && spawn(move || dispatcher.stand_in(now)).is_ok() {
            return true;
        }
        // Nobody is left to receive: the call that holds everything up fails with EINTR.
        let answering = self.turn.answering();
        self.given_up.store(answering.call, SeqCst);
        let _ = interrupt(answering.thread);
        false
    }

    /// Receives from now on, if the thread that did is still held up. By the new thread itself:
    /// where there can be none, the one that is held up must not leave.
    fn stand_in(self: &Arc<Self>, now: u64) {
        if !self.turn.take_over(now, &self.held) {
            return;
        }
        self.threads.fetch_add(1, SeqCst);
        self.receive();
        self.threads.fetch_sub(1, SeqCst);
    }

    fn answer(&self, notice: Notice, placement: &mut Placement) {
        let (listener, reply) = (&self.supervisor.listener, self.reply(notice));
        // Whoever does not wait any more has been killed, and needs no answer.
        let _: Result<(), Errno> = match self.supervisor.places_itself.load(Relaxed) {
            true => listener.answer(notice.id, reply),
            false => listener.answer_placed(&notice, reply, placement),
        };
    }

    fn reply(&self, notice: Notice) -> Reply {
        loop {
            // Nothing here panics. If it did, the caller would wait for ever.
            let answer = catch_unwind(AssertUnwindSafe(|| calls::answer(&self.supervisor, notice)));
            match answer.unwrap_or(Err(Errno(libc::EIO))) {
                Ok(reply) => return reply,
                Err(Errno(libc::EINTR)) => match self.supervisor.coming(notice.thread).0 {
                    // The kernel makes the call anew after the handler, or not, as the program
                    // has asked for.
                    Coming::Surely => return self.interrupted(notice, RESTART),
                    // Another thread has handled it.
                    Coming::No if self.goes_on(notice.id) => {}
                    _ => return self.interrupted(notice, Errno(libc::EINTR)),
                },
                Err(error) => return Reply::Fail(error),
            }
        }
    }

    /// The answer of a call that a signal ends while it waits for somebody.
    fn interrupted(&self, notice: Notice, error: Errno) -> Reply {
        mending::waits(&self.supervisor, notice);
        Reply::Fail(error)
    }

    /// Whether a call that was interrupted for nothing is to be made again.
    fn goes_on(&self, call: u64) -> bool {
        self.given_up.load(SeqCst) != call && self.supervisor.listener.is_waiting(call)
    }
}
