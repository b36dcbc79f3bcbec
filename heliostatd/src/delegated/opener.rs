//! Opens files by name beside the event loop, because opening may wait as long as a file system.
//!
//! A few threads take the wishes in turn; one that hangs on a file system whose server does not
//! answer is lost until that answers, and whose share is lost is told so (`queue.rs`). A lease
//! that keeps a writer out is given back by the event loop meanwhile; such a name is asked for
//! again until then, between the others, and holds no thread.
//!
//! ```text
//! open -> queue -> thread: named::open -> News::Found
//!           ^----- a lease is in the way -----'
//! ```

mod named;
mod queue;

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::error;

use super::message::{News, Wish};
pub use named::Caller;
use queue::{Job, Owner, Queue, THREADS_MAX};

/// How long a file that a lease keeps is asked for again, and how long between.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);

/// The opener's end in the event loop. Dropped, its threads end, each after what it is in.
pub struct Opener(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Something was put in line, or all is over.
    news: Condvar,
    teller: Sender<News>,
    bell: Arc<OwnedFd>,
}

struct State {
    queue: Queue<(Wish, Caller)>,
    threads: usize,
    idle: usize,
    is_over: bool,
}

impl Opener {
    /// Starts the first thread. What is found goes to `teller`, and rings `bell`.
    pub fn start(teller: Sender<News>, bell: Arc<OwnedFd>) -> std::io::Result<Opener> {
        let state = State { queue: Queue::default(), threads: 0, idle: 0, is_over: false };
        let state = Mutex::new(state);
        let shared = Arc::new(Shared { state, news: Condvar::new(), teller, bell });
        shared.add_thread(&mut shared.lock())?;
        Ok(Opener(shared))
    }

    /// Opens a file soon. The wish comes back when all threads that it may have are stuck.
    pub fn open(&self, wish: Wish, caller: Caller) -> Result<(), Wish> {
        let (now, owner) = (Instant::now(), Owner { session: wish.session, uid: caller.uid() });
        let job = Job { owner, due: now, until: now + PATIENCE, item: (wish, caller) };
        let pushed = self.0.lock().queue.push(job, now);
        self.0.news.notify_one();
        pushed.map_err(|job| job.item.0)
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.news.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_thread(self: &Arc<Self>, state: &mut State) -> std::io::Result<()> {
        let shared = self.clone();
        let work = move || shared.work();
        std::thread::Builder::new().name("opener".into()).spawn(work)?;
        state.threads += 1;
        // From now on, although it has yet to run: nobody need start another one meanwhile.
        state.idle += 1;
        Ok(())
    }

    /// Until nobody can wish any more.
    fn work(self: &Arc<Self>) {
        let mut state = self.lock();
        state.idle -= 1;
        while !state.is_over {
            let Some((ticket, job)) = state.queue.take(Instant::now()) else {
                state = self.sleep(state);
                continue;
            };
            // Somebody is there for the next while this thread is away, perhaps for ever.
            if state.idle == 0 && state.threads < THREADS_MAX {
                if let Err(error) = self.add_thread(&mut state) {
                    error!(%error, "no further thread opens files");
                }
            }
            drop(state);
            let (wish, caller) = &job.item;
            let found = named::open(caller, &wish.name, wish.access);
            state = self.lock();
            state.queue.release(ticket);
            state = self.judge(state, job, found);
        }
    }

    /// Asks again later when a lease is in the way and there is time; tells what was found else.
    fn judge<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        job: Job<(Wish, Caller)>,
        found: Result<OwnedFd, i32>,
    ) -> MutexGuard<'a, State> {
        let now = Instant::now();
        if matches!(found, Err(libc::EAGAIN)) && now < job.until {
            state.queue.put_back(Job { due: now + PAUSE, ..job });
            return state;
        }
        drop(state);
        let _ = self.teller.send(News::Found(job.item.0, found));
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        self.lock()
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let pause = state.queue.due().map(|due| due.saturating_duration_since(Instant::now()));
        state.idle += 1;
        let mut state = match pause {
            None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(pause) => {
                self.news.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.idle -= 1;
        state
    }
}
