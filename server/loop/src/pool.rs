//! A few threads for work that may hang.
//!
//! What a file system, or the owner of a descriptor, keeps for as long as it pleases must not hold
//! up anybody else. A thread that hangs is lost until that lets it go, and whoever goes to work
//! sees to it that another is there. What waits, in which order, and what it may use up, is the
//! work's own queue; while all threads hang, it waits there.
//!
//! ```text
//! put --> queue --> next --> run (may hang)
//!           ^--------- due: look again then
//! ```

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use heliostat_service_grant::Shares;
use tracing::error;

/// Threads of one pool that one user's programs may hold, and one sealed program.
const THREADS_PER_USER: u64 = 8;
const THREADS_PER_PROGRAM: u64 = 2;

/// Shares of the threads of a pool: some are kept for who holds none yet, and for root and the owner.
pub const fn thread_shares(all: u64) -> Shares {
    Shares {
        all,
        reserve: all / 4,
        user: THREADS_PER_USER,
        trusted: THREADS_PER_USER,
        sealed: THREADS_PER_PROGRAM,
    }
}

/// What the threads of a pool do.
pub trait Work: Send + Sync + Sized + 'static {
    /// What waits. Each of its methods is called under a lock, and must not wait.
    type Queue: Default + Send;
    /// What one thread is given.
    type Job;
    /// How the threads are called.
    const NAME: &'static str;
    /// Threads at most.
    const THREADS_MAX: usize;

    /// What is to be done now.
    fn next(queue: &mut Self::Queue, now: Instant) -> Option<Self::Job>;

    /// When something will be, although nothing is put in line.
    fn due(queue: &Self::Queue) -> Option<Instant>;

    /// Does it, without the lock. May hang.
    fn run(&self, job: Self::Job, pool: &Pool<Self>);
}

/// An end of the queue, and of the threads.
pub struct Pool<W: Work>(Arc<PoolInner<W>>);

struct PoolInner<W: Work> {
    work: W,
    state: Mutex<State<W::Queue>>,
    /// Something was put in line, a time is to be watched, or all is over.
    news: Condvar,
}

#[derive(Default)]
struct State<Q> {
    queue: Q,
    threads: usize,
    idle: usize,
    /// An idle thread sleeps no longer than until then.
    watched: Option<Instant>,
    is_over: bool,
}

impl<W: Work> Clone for Pool<W> {
    fn clone(&self) -> Self {
        Pool(self.0.clone())
    }
}

impl<W: Work> Pool<W> {
    /// A pool without threads.
    pub fn new(work: W) -> Self {
        Pool(Arc::new(PoolInner { work, state: Mutex::default(), news: Condvar::new() }))
    }

    /// Starts the first thread, if it is not there.
    ///
    /// # Errors
    /// The machine has no thread left, and the pool has none.
    pub fn start(&self) -> io::Result<()> {
        let mut state = self.lock();
        if state.threads == 0 {
            self.add_thread(&mut state)?;
        }
        Ok(())
    }

    /// Puts something in line.
    pub fn put<T>(&self, change: impl FnOnce(&mut W::Queue) -> T) -> T {
        let answer = self.with_queue(change);
        self.0.news.notify_one();
        answer
    }

    /// Changes the queue in a thread of the pool, which looks at it before it sleeps.
    pub fn with_queue<T>(&self, change: impl FnOnce(&mut W::Queue) -> T) -> T {
        change(&mut self.lock().queue)
    }

    /// Ends the threads, each after what it is in.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.0.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<W::Queue>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_thread(&self, state: &mut State<W::Queue>) -> io::Result<()> {
        let pool = self.clone();
        std::thread::Builder::new().name(W::NAME.into()).spawn(move || pool.serve())?;
        state.threads += 1;
        // From now on, although it has yet to run: nobody need start another one meanwhile.
        state.idle += 1;
        Ok(())
    }

    fn serve(&self) {
        let mut state = self.lock();
        state.idle -= 1;
        while !state.is_over {
            let Some(job) = W::next(&mut state.queue, Instant::now()) else {
                state = self.sleep(state);
                continue;
            };
            self.leave_another(&mut state);
            drop(state);
            self.0.work.run(job, self);
            state = self.lock();
        }
    }

    /// Somebody is there for the next while this thread is away, perhaps for ever, and somebody
    /// watches the time. Where no thread can be had, the next waits for this one.
    fn leave_another(&self, state: &mut State<W::Queue>) {
        if state.idle > 0 {
            if state.watched.is_none() && W::due(&state.queue).is_some() {
                self.0.news.notify_one();
            }
        } else if state.threads < W::THREADS_MAX {
            if let Err(error) = self.add_thread(state) {
                error!(%error, threads = W::NAME, "no further thread");
            }
        }
    }

    /// Until there is news, or something is due that no other idle thread watches.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<W::Queue>>,
    ) -> MutexGuard<'a, State<W::Queue>> {
        state.idle += 1;
        let due = W::due(&state.queue);
        let watches = due.filter(|due| state.watched.is_none_or(|watched| *due < watched));
        let mut state = if let Some(due) = watches {
            state.watched = Some(due);
            let pause = due.saturating_duration_since(Instant::now());
            let woken = self.0.news.wait_timeout(state, pause);
            let mut state = woken.unwrap_or_else(PoisonError::into_inner).0;
            // Even if a later one watches an earlier time by now: two that watch do no harm.
            state.watched = None;
            state
        } else {
            self.0.news.wait(state).unwrap_or_else(PoisonError::into_inner)
        };
        state.idle -= 1;
        state
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
