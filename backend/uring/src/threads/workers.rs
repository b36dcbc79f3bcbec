//! The threads that make transfers, and the list of what is done.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use heliostat_base::futex;
use heliostat_base::mapping::SharedMapping;

use super::lines::Lines;
use crate::{flags_of, Allocation, Direction, Manner};

/// Threads of one ring. Each waits for the device on its own, so they bound what the device is
/// given at once.
const WORKERS_MAX: usize = 20;
/// Of one owner's requests: the others are left to whoever else has some.
const OWNER_MAX: usize = 16;
const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// A request's place, and its result or minus an errno.
pub type Done = (u32, i32);

/// What a worker does.
pub enum Work {
    /// Bytes of the file into the pieces.
    Read(Transfer),
    /// The pieces' bytes into the file.
    Write(Transfer),
    /// What was written is on the disk.
    Fsync,
    /// The same, and of what describes the file only what it takes to read it.
    Fdatasync,
    /// A range is given back or reads as zero.
    Allocate {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// Which of the two.
        what: Allocation,
    },
    /// The file is so many bytes long.
    Truncate(u64),
}

/// Between which places bytes are moved.
pub struct Transfer {
    /// Of a mapping, kept until the request is done.
    pub pieces: Box<[libc::iovec]>,
    /// In the file.
    pub offset: u64,
    /// How.
    pub manner: Manner,
    /// The mapping of the pieces.
    pub _memory: Arc<SharedMapping>,
}

/// A request for a worker.
pub struct Job {
    /// Its place in the ring.
    pub index: u32,
    /// For whom it is.
    pub owner: u32,
    /// With which file.
    pub file: Arc<OwnedFd>,
    /// What is to be done.
    pub work: Work,
}

// SAFETY: the pointers of a request's pieces point into its own share of the mapping, which may be
// used from every thread.
unsafe impl Send for Job {}

/// What is done, and the bell of who takes it.
#[derive(Default)]
pub struct DoneList {
    list: Mutex<Vec<Done>>,
    count: AtomicUsize,
    bell: AtomicU32,
}

impl DoneList {
    /// Adds a completion and wakes who sleeps.
    pub fn put(&self, done: Done) {
        let mut list = whole(&self.list);
        list.push(done);
        self.count.store(list.len(), SeqCst);
        drop(list);
        // Sequentially consistent like `arm`: either this swap sees ASLEEP, or the sleeper, which
        // looks at the count after it has armed, sees the completion.
        if self.bell.swap(AWAKE, SeqCst) == ASLEEP {
            futex::wake(&self.bell, 1);
        }
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    /// Moves everything behind `into`.
    pub fn take_into(&self, into: &mut VecDeque<Done>) {
        if self.is_empty() {
            return;
        }
        let mut list = whole(&self.list);
        into.extend(list.drain(..));
        self.count.store(0, SeqCst);
    }

    /// Announces a sleep on [`DoneList::word`], which lasts while it holds the answer.
    pub fn arm(&self) -> u32 {
        self.bell.store(ASLEEP, SeqCst);
        ASLEEP
    }

    /// Takes the announcement back.
    pub fn disarm(&self) {
        self.bell.store(AWAKE, SeqCst);
    }

    /// The word to sleep on.
    pub fn word(&self) -> &AtomicU32 {
        &self.bell
    }
}

/// The threads of a ring, and what they have to do.
#[derive(Default)]
pub struct Workers {
    queue: Mutex<Queue>,
    work: Condvar,
    /// What they have done.
    pub done: Arc<DoneList>,
}

struct Queue {
    jobs: Lines<Job>,
    threads: usize,
    idle: usize,
    is_over: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { jobs: Lines::new(OWNER_MAX), threads: 0, idle: 0, is_over: false }
    }
}

impl Workers {
    /// Takes requests over, and starts threads for them as far as there may be more.
    pub fn put(self: &Arc<Self>, jobs: &mut Vec<Job>) {
        let mut queue = whole(&self.queue);
        jobs.drain(..).for_each(|job| queue.jobs.put(job.owner, job));
        let wanted = queue.jobs.waiting();
        while queue.idle < wanted && queue.threads < WORKERS_MAX {
            let workers = self.clone();
            let name = std::thread::Builder::new().name("transfers".into());
            match name.spawn(move || workers.serve()) {
                Ok(_) => {}
                // Those that run do it later; without any the requests end here.
                Err(_) if queue.threads > 0 => break,
                Err(error) => return self.fail_all(queue, error.raw_os_error()),
            }
            queue.threads += 1;
            queue.idle += 1;
        }
        drop(queue);
        self.work.notify_all();
    }

    fn fail_all(&self, mut queue: MutexGuard<'_, Queue>, errno: Option<i32>) {
        let jobs = queue.jobs.take_all();
        drop(queue);
        jobs.iter().for_each(|job| self.done.put((job.index, -errno.unwrap_or(libc::EAGAIN))));
    }

    /// Takes back a request that no thread has begun; false when one has, or there is none.
    pub fn take_back(&self, index: u32) -> bool {
        whole(&self.queue).jobs.take_back(|job| job.index == index)
    }

    /// Has the threads end, each after what it is in.
    pub fn end(&self) {
        let mut queue = whole(&self.queue);
        queue.is_over = true;
        drop(queue.jobs.take_all());
        drop(queue);
        self.work.notify_all();
    }

    fn serve(&self) {
        while let Some(job) = self.next() {
            let result = make(&job);
            // Its file and memory go before anybody hears of its end.
            let (index, owner) = (job.index, job.owner);
            drop(job);
            self.done.put((index, result));
            let mut queue = whole(&self.queue);
            queue.jobs.done(owner);
            queue.idle += 1;
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = whole(&self.queue);
        loop {
            if queue.is_over {
                return None;
            }
            if let Some((_, job)) = queue.jobs.take() {
                queue.idle -= 1;
                return Some(job);
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// No thread panics while it holds a lock here; one that did leaves whole lists all the same.
fn whole<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a request: bytes, or minus an errno.
fn make(job: &Job) -> i32 {
    let fd = job.file.as_raw_fd();
    match &job.work {
        Work::Read(Transfer { pieces, offset, manner, .. }) => {
            // SAFETY: the pieces lie in the mapping of which the request has a share, and may be
            // written; other processes may write there as well, which the kernel allows for.
            unsafe { make_transfer(Direction::Read, fd, pieces, *offset, *manner) }
        }
        Work::Write(Transfer { pieces, offset, manner, .. }) => {
            // SAFETY: the pieces lie in the mapping of which the request has a share.
            unsafe { make_transfer(Direction::Write, fd, pieces, *offset, *manner) }
        }
        // SAFETY: takes no pointer.
        Work::Fsync => until_answered(|| unsafe { libc::fsync(fd) as isize }),
        // SAFETY: takes no pointer.
        Work::Fdatasync => until_answered(|| unsafe { libc::fdatasync(fd) as isize }),
        Work::Allocate { offset, bytes, what } => {
            let (offset, bytes) = (*offset as i64, *bytes as i64);
            // SAFETY: takes no pointer.
            let call = || unsafe { libc::fallocate(fd, what.mode(), offset, bytes) as isize };
            until_answered(call)
        }
        Work::Truncate(bytes) => {
            // SAFETY: takes no pointer.
            until_answered(|| unsafe { libc::ftruncate(fd, *bytes as i64) as isize })
        }
    }
}

/// Moves bytes between a file and pieces of memory: bytes, or minus an errno.
///
/// # Safety
/// The pieces are mapped until this returns, and writable where bytes are read into them.
pub(crate) unsafe fn make_transfer(
    direction: Direction,
    fd: RawFd,
    pieces: &[libc::iovec],
    offset: u64,
    manner: Manner,
) -> i32 {
    let (start, count) = (pieces.as_ptr(), pieces.len() as i32);
    let (offset, flags) = (offset as i64, flags_of(manner));
    until_answered(|| match direction {
        // SAFETY: the caller keeps the pieces mapped and writable.
        Direction::Read => unsafe { libc::preadv2(fd, start, count, offset, flags) },
        // SAFETY: the caller keeps the pieces mapped.
        Direction::Write => unsafe { libc::pwritev2(fd, start, count, offset, flags) },
    })
}

/// Makes a call again while it is interrupted: its answer, or minus an errno.
fn until_answered(call: impl Fn() -> isize) -> i32 {
    loop {
        let answer = call();
        if answer >= 0 {
            return i32::try_from(answer).unwrap_or(i32::MAX);
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            errno => return -errno.unwrap_or(libc::EIO),
        }
    }
}
