//! Which descriptors are queues, what lies beneath them, and which epoll sets have them.

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

use super::own;
use crate::thread::Critical;

/// Hidden numbers lie above those that programs use.
const HIDDEN_LOWEST: i32 = 900;
/// Places in epoll sets that are remembered; a program has few listening sockets in few sets.
const INTERESTS_MAX: usize = 1024;
/// Workers of one process ever: each has a page that stays, since connections may name it.
const PAGES_MAX: usize = 4096;

/// Every queue of this process.
pub static ENTRIES: Lock<Vec<Entry>> = Lock::new(Vec::new());
static INTERESTS: Lock<Vec<Interest>> = Lock::new(Vec::new());
static PAGES: Lock<Vec<SharedMapping>> = Lock::new(Vec::new());
/// What descriptors were before another socket took their place.
static MODES: Lock<Vec<(i32, bool)>> = Lock::new(Vec::new());
static HAS_MODES: AtomicBool = AtomicBool::new(false);
/// There is a queue.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// There is one on which the program has not waited yet.
static IS_READY_DUE: AtomicBool = AtomicBool::new(false);

struct Interest {
    epoll: i32,
    fd: i32,
    event: libc::epoll_event,
}

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

/// Gives a hidden number up.
pub fn forget_real(fd: i32) {
    own::remove(fd);
    let mut entries = ENTRIES.lock();
    entries.iter_mut().filter(|it| it.real() == fd).for_each(|it| it.real = None);
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
        put(copy.into_raw(), *fd, is_nonblocking)?;
    }
    Ok(())
}

/// Puts `new` in the place of `fd`, in epoll sets too.
pub fn put(new: i32, fd: i32, is_nonblocking: bool) -> Result<(), Errno> {
    let interests = INTERESTS.lock();
    let its = || interests.iter().filter(|interest| interest.fd == fd);
    // A set names what it holds by number and file: the old file has other numbers still.
    its().for_each(|it| _ = call::epoll_ctl(it.epoll, libc::EPOLL_CTL_DEL, fd, None));
    let answer = call::replace(new, fd);
    set_nonblocking(fd, is_nonblocking);
    its().for_each(|it| _ = call::epoll_ctl(it.epoll, libc::EPOLL_CTL_ADD, fd, Some(it.event)));
    answer
}

fn set_nonblocking(fd: i32, is_nonblocking: bool) {
    let flags = call::fcntl(fd, libc::F_GETFL, 0).unwrap_or(0);
    let bit = libc::O_NONBLOCK as usize;
    let wanted = if is_nonblocking { flags | bit } else { flags & !bit };
    if wanted != flags {
        let _ = call::fcntl(fd, libc::F_SETFL, wanted);
    }
}

/// Lets the numbers of a queue be the listening socket's again. Answers who was its worker.
pub fn restore(fd: i32) -> Option<(u64, ObjectId)> {
    let entry = {
        let mut entries = ENTRIES.lock();
        let at = entries.iter().position(|entry| entry.fds.contains(&fd))?;
        entries.swap_remove(at)
    };
    count();
    for fd in &entry.fds {
        let is_nonblocking = call::is_nonblocking(*fd);
        if let Ok(copy) = heliostat_base::fd::duplicate(entry.real()) {
            let _ = put(copy.into_raw(), *fd, is_nonblocking);
        }
    }
    Some((entry.epoch, entry.worker))
}

/// A number is closed. Answers who was worker, where it was the last one of its queue.
pub fn close(fd: i32) -> Option<(u64, ObjectId)> {
    INTERESTS.lock().retain(|interest| interest.fd != fd && interest.epoll != fd);
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

/// Remembers in which epoll sets a listening descriptor is.
pub fn note_interest(epoll: i32, op: i32, fd: i32, event: Option<libc::epoll_event>) {
    let mut interests = INTERESTS.lock();
    interests.retain(|it| (it.epoll, it.fd) != (epoll, fd));
    if let (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, Some(event)) = (op, event) {
        if interests.len() < INTERESTS_MAX {
            interests.push(Interest { epoll, fd, event });
        }
    }
}

/// Whether some epoll set has one of them.
pub fn is_watched(fds: &[i32]) -> bool {
    INTERESTS.lock().iter().any(|interest| fds.contains(&interest.fd))
}

/// Keeps what a descriptor was before another socket takes its place.
pub fn remember_nonblocking(fd: i32, is_nonblocking: bool) {
    let mut modes = MODES.lock();
    modes.retain(|(it, _)| *it != fd);
    if modes.len() < INTERESTS_MAX {
        modes.push((fd, is_nonblocking));
    }
    HAS_MODES.store(true, Release);
}

/// Whether that is kept of a descriptor.
#[inline]
pub fn is_bound(fd: i32) -> bool {
    HAS_MODES.load(Relaxed) && MODES.lock().iter().any(|(it, _)| *it == fd)
}

/// That, once.
pub fn was_nonblocking(fd: i32) -> Option<bool> {
    let mut modes = MODES.lock();
    let at = modes.iter().position(|(it, _)| *it == fd)?;
    let mode = modes.swap_remove(at).1;
    HAS_MODES.store(!modes.is_empty(), Release);
    Some(mode)
}

/// In the child of a fork: locks are free, and nobody here has waited yet.
pub fn reset_in_forked_child() {
    ENTRIES.reset_in_forked_child();
    INTERESTS.reset_in_forked_child();
    PAGES.reset_in_forked_child();
    MODES.reset_in_forked_child();
    for entry in ENTRIES.lock().iter_mut() {
        entry.is_ready = is_watched(&entry.fds);
        IS_READY_DUE.store(true, Release);
    }
}
