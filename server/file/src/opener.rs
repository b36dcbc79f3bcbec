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
//! (`create.rs`, `changes.rs`), reading directories (`directory.rs`) and whole small files (`fetch.rs`).

mod changes;
mod create;
mod directory;
mod fetch;
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

/// Files of one session that one thread fetches before others have their turn.
const FETCHED_AT_ONCE: usize = 16;
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

/// What one thread does at a time: one name, or several files to fetch of one session.
type Jobs = Vec<Job<(OpenRequest, Caller)>>;

impl Work for Opening {
    type Queue = Queue<(OpenRequest, Caller)>;
    type Job = (u64, Jobs);
    const NAME: &'static str = "opener";
    const THREADS_MAX: usize = THREADS_MAX;

    fn next(queue: &mut Self::Queue, now: Instant) -> Option<Self::Job> {
        let (ticket, first) = queue.take(now)?;
        let is_fetch =
            |(request, _): &(OpenRequest, Caller)| matches!(request.task, Task::Fetch { .. });
        let session = first.owner.session;
        let most = if is_fetch(&first.item) { FETCHED_AT_ONCE - 1 } else { 0 };
        let mut jobs = vec![first];
        if most > 0 {
            jobs.extend(queue.take_alike(session, now, (most, is_fetch)));
        }
        Some((ticket, jobs))
    }

    fn due(queue: &Self::Queue) -> Option<Instant> {
        queue.due()
    }

    /// Asks again later when a lease is in the way and there is time; otherwise tells what was found.
    fn run(&self, (ticket, jobs): Self::Job, pool: &Pool<Self>) {
        let found = perform_all(&jobs);
        let now = Instant::now();
        let is_in_the_way = |found: &Result<Made, Refusal>, job: &Job<_>| {
            matches!(found, Err(Refusal::Errno(Errno::AGAIN))) && now < job.until
        };
        let (again, told): (Vec<_>, Vec<_>) =
            jobs.into_iter().zip(found).partition(|(job, found)| is_in_the_way(found, job));
        let again = again.into_iter().map(|(job, _)| Job { due: now + PAUSE, ..job }).collect();
        let over = pool.with_queue(|queue| queue.put_back(ticket, again));
        let over = over.into_iter().map(|job| (job, Err(Errno::AGAIN.into())));
        for (job, found) in told.into_iter().chain(over) {
            let (request, caller) = job.item;
            self.events.send(Event::Service(FileEvent::Found(request, caller.holder, found)));
        }
    }
}

/// Does what was taken, in order. Taking a program's rights on costs more than a small file: files to
/// fetch are read by one session's rights in one go.
fn perform_all(jobs: &Jobs) -> Vec<Result<Made, Refusal>> {
    if let [one] = &jobs[..] {
        let (request, caller) = &one.item;
        return vec![perform(caller, &request.task)];
    }
    let Some((_, caller)) = jobs.first().map(|job| &job.item) else { return Vec::new() };
    let fetched = rights::act(caller, |root| {
        let each = jobs.iter().map(|job| match &job.item {
            (OpenRequest { task: Task::Fetch { name, offset, bytes }, .. }, caller) => {
                fetch::fetch(root, name, (*offset, *bytes), &*caller.judge).map(Made::Bytes)
            }
            _ => Err(Errno::INVAL.into()),
        });
        Ok(each.collect())
    });
    fetched.unwrap_or_else(|refusal: Refusal| {
        let errno = refusal.errno();
        jobs.iter().map(|_| Err(errno.into())).collect()
    })
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
        Task::Fetch { name, offset, bytes } => {
            let fetch = |root: &OwnedFd| fetch::fetch(root, name, (*offset, *bytes), judge);
            rights::act(caller, fetch).map(Made::Bytes)
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
