//! Opens files by name beside the event loop, because opening may wait as long as a file system.
//!
//! The threads of a pool take the requests in turn; whose share of them hangs is told so (`queue.rs`).
//! A lease that keeps a writer out is given back by the event loop meanwhile; such a name is asked
//! for again until then, between the others, and holds no thread.
//!
//! ```text
//! open -> queue -> thread: perform -> FileEvent::Found
//!           ^--- a lease is in the way ---'
//! ```
//!
//! Whatever else waits for a file system is done here as well: making and removing names
//! (`create.rs`, `changes.rs`), and reading directories (`directory.rs`).

mod changes;
mod create;
mod directory;
mod judge;
mod named;
mod queue;
mod rights;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::mode;
use heliostat_abi::name::ObjectId;
use heliostat_base::sys::Errno as BaseErrno;
use heliostat_base::umask::OwnUmask;
use heliostat_server_loop::pool::{Pool, Work};
use heliostat_server_loop::{Event, Events};
use rustix::io::Errno;

use super::files::Files;
use super::message::{FileEvent, OpenRequest};
use super::task::{Made, Refusal, Task};
pub use judge::{with_slash, Judge};
pub use named::Caller;
use queue::{Job, Owner, Queue, THREADS_MAX};

thread_local! {
    /// Of this opener's thread, which makes files for one program after another.
    static UMASK: Result<OwnUmask, BaseErrno> = OwnUmask::part();
}

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

    /// A session's delegation has ended: nothing that waits in its name is done any more. Answers the
    /// directories that would have been read, whose last close may wait for a file system.
    pub fn forget(&self, session: ObjectId) -> Vec<Arc<OwnedFd>> {
        let forgotten = self.0.with_queue(|queue| queue.forget(session)).into_iter();
        forgotten.filter_map(|job| job.item.0.task.into_directory()).collect()
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

    /// Asks again later when a lease is in the way and there is time; otherwise tells what was found.
    fn run(&self, (ticket, job): Self::Job, pool: &Pool<Self>) {
        let (request, caller) = &job.item;
        let found = perform(caller, &request.task);
        let now = Instant::now();
        let is_in_the_way = matches!(found, Err(Refusal::Errno(Errno::AGAIN)));
        let over = if is_in_the_way && now < job.until {
            let job = Job { due: now + PAUSE, ..job };
            pool.with_queue(|queue| queue.put_back(ticket, job).err())
        } else {
            pool.with_queue(|queue| queue.release(ticket));
            Some(job)
        };
        let Some(job) = over else { return };
        let (request, caller) = job.item;
        self.events.send(Event::Service(FileEvent::Found(request, caller.holder, found)));
    }
}

/// Does what a session has asked for. Waits as long as the file system does.
fn perform(caller: &Caller, task: &Task) -> Result<Made, Refusal> {
    // Before its root folder is opened, with which it is seen that the process lives.
    let withheld = if task.makes() { take_umask(caller.umask()) } else { 0 };
    let judge = &*caller.judge;
    match task {
        Task::Open { name, argument } if Task::changes_on_open(*argument) => {
            let argument = *argument & !mode(withheld);
            rights::act(caller, |root| create::open(root, name, argument, judge)).map(Made::File)
        }
        Task::Open { name, argument } => {
            let open = |root: &OwnedFd| Ok(named::open_below(root, name, *argument)?);
            rights::act(caller, open).map(Made::File)
        }
        Task::Change(change) => {
            rights::act(caller, |root| changes::change(root, change, withheld, judge))?;
            Ok(Made::Bytes(Vec::new()))
        }
        Task::Readlink { name } => {
            rights::act(caller, |root| changes::readlink(root, name, judge)).map(Made::Bytes)
        }
        Task::Readdir { directory, reading, cookie, bytes } => {
            Ok(Made::Bytes(directory::read(directory, reading, *cookie, *bytes)?))
        }
    }
}

/// Takes a program's umask on; the permissions that the caller has to take away itself. They are its
/// umask's where a thread cannot have one of its own (unshare(2), which containers filter): then the
/// control plane's takes its bits away as well, and what is made may have fewer, never more.
fn take_umask(mask: u32) -> u32 {
    UMASK.with(|own| match own {
        Ok(own) => {
            own.set(mask);
            0
        }
        Err(_) => mask,
    })
}
