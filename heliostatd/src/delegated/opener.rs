//! Opens files by name beside the event loop, because opening may wait as long as a file system.
//!
//! The threads of a pool take the wishes in turn; whose share of them hangs is told so (`queue.rs`).
//! A lease that keeps a writer out is given back by the event loop meanwhile; such a name is asked
//! for again until then, between the others, and holds no thread.
//!
//! ```text
//! open -> queue -> thread: named::open -> News::Found
//!           ^----- a lease is in the way -----'
//! ```

mod named;
mod queue;

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::message::{News, Wish};
use crate::pool::{Pool, Work};
use crate::quotas::OPENERS_MAX;
pub use named::Caller;
use queue::{Job, Owner, Queue};

/// How long a file that a lease keeps is asked for again, and how long between.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);

/// The opener's end in the event loop. Dropped, its threads end, each after what it is in.
pub struct Opener(Pool<Opening>);

/// Where what is found goes, and who is rung.
struct Opening {
    teller: Sender<News>,
    bell: Arc<OwnedFd>,
}

impl Opener {
    /// Starts the first thread. What is found goes to `teller`, and rings `bell`.
    pub fn start(teller: Sender<News>, bell: Arc<OwnedFd>) -> std::io::Result<Opener> {
        let opener = Opener(Pool::new(Opening { teller, bell }));
        opener.0.start()?;
        Ok(opener)
    }

    /// Opens a file soon. The wish comes back when all threads that it may have are stuck.
    pub fn open(&self, wish: Wish, caller: Caller) -> Result<(), Wish> {
        let (now, owner) = (Instant::now(), Owner { session: wish.session, holder: caller.holder });
        let job = Job { owner, due: now, until: now + PATIENCE, item: (wish, caller) };
        let refused = self.0.put(|queue| queue.push(job, now).err());
        refused.map_or(Ok(()), |job| Err(job.item.0))
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Work for Opening {
    type Queue = Queue<(Wish, Caller)>;
    type Job = (u64, Job<(Wish, Caller)>);
    const NAME: &'static str = "opener";
    const THREADS_MAX: usize = OPENERS_MAX;

    fn next(queue: &mut Self::Queue, now: Instant) -> Option<Self::Job> {
        queue.take(now)
    }

    fn due(queue: &Self::Queue) -> Option<Instant> {
        queue.due()
    }

    /// Asks again later when a lease is in the way and there is time; tells what was found else.
    fn run(&self, (ticket, job): Self::Job, pool: &Pool<Self>) {
        let (wish, caller) = &job.item;
        let found = named::open(caller, &wish.name, wish.access);
        let now = Instant::now();
        let again = matches!(found, Err(libc::EAGAIN)) && now < job.until;
        let told = pool.with_queue(|queue| {
            queue.release(ticket);
            match again {
                true => {
                    queue.put_back(Job { due: now + PAUSE, ..job });
                    None
                }
                false => Some(job),
            }
        });
        let Some(job) = told else { return };
        let _ = self.teller.send(News::Found(job.item.0, job.item.1.holder, found));
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}
