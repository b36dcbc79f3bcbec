//! Opens files by name beside the event loop, because opening may wait as long as a file system.
//!
//! The threads of a pool take the requests in turn; whose share of them hangs is told so (`queue.rs`).
//! A lease that keeps a writer out is given back by the event loop meanwhile; such a name is asked
//! for again until then, between the others, and holds no thread.
//!
//! ```text
//! open -> queue -> thread: named::open -> FileEvent::Found
//!           ^----- a lease is in the way -----'
//! ```

mod named;
mod queue;

use std::time::{Duration, Instant};

use heliostat_server_loop::pool::{Pool, Work};
use heliostat_server_loop::{Event, Events};

use super::files::Files;
use super::message::{FileEvent, OpenRequest};
pub use named::Caller;
use queue::{Job, Owner, Queue, THREADS_MAX};

/// How long a file that a lease keeps is asked for again, and how long between.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);

/// The opener's end in the event loop. Dropped, its threads end, each after what it is in.
pub struct Opener(Pool<Opening>);

/// Where what is found goes.
struct Opening {
    events: Events<Files>,
}

impl Opener {
    /// Starts the first thread. What is found goes to `events`.
    ///
    /// # Errors
    /// The machine has no thread left.
    pub fn start(events: Events<Files>) -> std::io::Result<Opener> {
        let opener = Opener(Pool::new(Opening { events }));
        opener.0.start()?;
        Ok(opener)
    }

    /// Opens a file soon. The request comes back when all threads that it may have are stuck.
    pub fn open(&self, request: OpenRequest, caller: Caller) -> Result<(), OpenRequest> {
        let now = Instant::now();
        let owner = Owner { session: request.session, holder: caller.holder };
        let job = Job { owner, due: now, until: now + PATIENCE, item: (request, caller) };
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
    type Queue = Queue<(OpenRequest, Caller)>;
    type Job = (u64, Job<(OpenRequest, Caller)>);
    const NAME: &'static str = "opener";
    const THREADS_MAX: usize = THREADS_MAX;

    fn next(queue: &mut Self::Queue, now: Instant) -> Option<Self::Job> {
        queue.take(now)
    }

    fn due(queue: &Self::Queue) -> Option<Instant> {
        queue.due()
    }

    /// Asks again later when a lease is in the way and there is time; tells what was found else.
    fn run(&self, (ticket, job): Self::Job, pool: &Pool<Self>) {
        let (request, caller) = &job.item;
        let found = named::open(caller, &request.name, request.access);
        let now = Instant::now();
        let again = matches!(found, Err(libc::EAGAIN)) && now < job.until;
        let answered = pool.with_queue(|queue| {
            queue.release(ticket);
            match again {
                true => {
                    queue.put_back(Job { due: now + PAUSE, ..job });
                    None
                }
                false => Some(job),
            }
        });
        let Some(job) = answered else { return };
        let (request, caller) = job.item;
        self.events.send(Event::Service(FileEvent::Found(request, caller.holder, found)));
    }
}
