//! Which descriptors are queues, and what lies beneath them.

use heliostat_abi::listener::page;
use heliostat_abi::name::ObjectId;
use heliostat_base::fd::OwnedFd;
use heliostat_base::lock::Lock;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::sync::AtomicBool;
use heliostat_base::sync::Ordering::{Relaxed, Release};
use heliostat_base::sys::Errno;
use heliostat_base::{call, descriptor_limit};
use std::os::fd::AsRawFd;

use super::interests::{self, Sets};
use super::own;
use crate::thread::Critical;

/// Hidden numbers lie above those that programs use.
const HIDDEN_LOWEST: i32 = 900;
/// Workers of one process ever: each has a page that stays, since connections may name it.
const PAGES_MAX: usize = 4096;

/// Every queue of this process.
pub static ENTRIES: Lock<Vec<Entry>> = Lock::new(Vec::new());
static PAGES: Lock<Vec<SharedMapping>> = Lock::new(Vec::new());
/// There is a queue.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// There is one on which the program has not waited yet.
static IS_READY_DUE: AtomicBool = AtomicBool::new(false);

/// What a queue brings.
pub struct Part {
    /// Which worker takes from it.
    pub worker: ObjectId,
    /// Of which session.
    pub epoch: u64,
    /// The place of its page.
    pub page: u32,
}

/// A queue.
pub struct Entry {
    /// Its numbers.
    pub fds: Vec<i32>,
    /// The listening socket; none where the program has taken its number.
    real: Option<OwnedFd>,
    /// Which worker takes from it.
    pub worker: ObjectId,
    /// The session that joined.
    pub epoch: u64,
    /// The place of its page.
    pub page: u32,
    /// The program has waited on it.
    pub is_ready: bool,
    /// shutdown(2) was called.
    pub is_shut: bool,
}

impl Entry {
    /// The queue that takes the place of the listening socket `fd`.
    pub fn new(fd: i32, part: Part) -> Option<Entry> {
        let real = descriptor_limit::duplicate_above(fd, HIDDEN_LOWEST).ok()?;
        own::add(real.as_raw_fd());
        let Part { worker, epoch, page } = part;
        let (is_ready, is_shut) = (false, false);
        Some(Entry { fds: vec![fd], real: Some(real), worker, epoch, page, is_ready, is_shut })
    }

    /// The listening socket's number.
    pub fn real(&self) -> i32 {
        self.real.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Another queue has taken its place.
    pub fn begin_anew(&mut self, part: Part) {
        (self.worker, self.epoch, self.page) = (part.worker, part.epoch, part.page);
        self.is_ready = false;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.real.is_some() {
            own::remove(self.real());
        }
    }
}

/// Gives a hidden number up; the socket beneath the queue has another one then, if there is one.
pub fn move_real(fd: i32) {
    let mut entries = ENTRIES.lock();
    let Some(entry) = entries.iter_mut().find(|it| it.real() == fd) else { return };
    let moved = descriptor_limit::duplicate_above(fd, HIDDEN_LOWEST).ok();
    own::remove(fd);
    moved.iter().for_each(|real| own::add(real.as_raw_fd()));
    entry.real = moved;
}

/// Whether there is a queue.
#[inline]
pub fn is_used() -> bool {
    IS_USED.load(Relaxed)
}

/// Whether one has not been waited on.
#[inline]
pub fn is_ready_due() -> bool {
    IS_READY_DUE.load(Relaxed)
}

/// Counts queues anew, after a change.
pub fn count() {
    let entries = ENTRIES.lock();
    IS_USED.store(!entries.is_empty(), Release);
    IS_READY_DUE.store(entries.iter().any(|entry| !entry.is_ready), Release);
}

/// Does something with the queue of a descriptor.
pub fn with<T>(fd: i32, work: impl FnOnce(&mut Entry) -> T) -> Option<T> {
    let _critical = Critical::enter();
    ENTRIES.lock().iter_mut().find(|entry| entry.fds.contains(&fd)).map(work)
}

/// Keeps a page, by which a worker tells what it has closed.
pub fn keep_page(page: SharedMapping) -> Option<u32> {
    let mut pages = PAGES.lock();
    if pages.len() >= PAGES_MAX {
        return None;
    }
    pages.push(page);
    Some(pages.len() as u32 - 1)
}

/// One more connection has ended.
pub fn count_closed(page: u32) {
    if let Some(page) = PAGES.lock().get(page as usize) {
        page.atomic_u64(page::AT_CLOSED).fetch_add(1, Relaxed);
    }
}

/// Lets these numbers be a queue's, also in epoll sets.
pub fn replace(fds: &[i32], queue: OwnedFd, is_nonblocking: bool) -> Result<(), Errno> {
    for fd in fds {
        let copy = queue.duplicate()?;
        put(copy.into_raw(), *fd, is_nonblocking, Sets::All)?;
    }
    Ok(())
}

/// Puts `new` in the place of `fd`, in epoll sets too.
pub fn put(new: i32, fd: i32, is_nonblocking: bool, sets: Sets) -> Result<(), Errno> {
    interests::carry_over(fd, sets, || {
        let answer = call::replace(new, fd);
        set_nonblocking(fd, is_nonblocking);
        answer
    })
}

/// Lets a descriptor block, or not.
pub fn set_nonblocking(fd: i32, is_nonblocking: bool) {
    let flags = call::fcntl(fd, libc::F_GETFL, 0).unwrap_or(0);
    let bit = libc::O_NONBLOCK as usize;
    let wanted = if is_nonblocking { flags | bit } else { flags & !bit };
    if wanted != flags {
        let _ = call::fcntl(fd, libc::F_SETFL, wanted);
    }
}

/// Lets the numbers of a queue be the listening socket's again. Answers who was its worker.
pub fn restore(fd: i32, sets: Sets) -> Option<(u64, ObjectId)> {
    let entry = {
        let mut entries = ENTRIES.lock();
        let at = entries.iter().position(|entry| entry.fds.contains(&fd))?;
        // Before it is no entry any more: who finds none accepts by the number, as other threads do that
        // wait for the same queue.
        for fd in &entries[at].fds {
            let is_nonblocking = call::is_nonblocking(*fd);
            if let Ok(copy) = heliostat_base::fd::duplicate(entries[at].real()) {
                let _ = put(copy.into_raw(), *fd, is_nonblocking, sets);
            }
        }
        entries.swap_remove(at)
    };
    count();
    Some((entry.epoch, entry.worker))
}

/// A number is closed. Answers who was worker, where it was the last one of its queue.
pub fn close(fd: i32) -> Option<(u64, ObjectId)> {
    let mut entries = ENTRIES.lock();
    let at = entries.iter().position(|entry| entry.fds.contains(&fd))?;
    entries[at].fds.retain(|it| *it != fd);
    if !entries[at].fds.is_empty() {
        return None;
    }
    let gone = entries.swap_remove(at);
    drop(entries);
    count();
    Some((gone.epoch, gone.worker))
}

/// In the child of a fork: locks are free, and nobody here has waited yet.
pub fn reset_in_forked_child() {
    ENTRIES.reset_in_forked_child();
    PAGES.reset_in_forked_child();
    for entry in ENTRIES.lock().iter_mut() {
        entry.is_ready = interests::is_watched(&entry.fds);
        IS_READY_DUE.store(true, Release);
    }
}
