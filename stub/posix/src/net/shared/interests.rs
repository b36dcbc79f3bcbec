//! In which epoll sets listening descriptors are, so that what takes their place is put there too.
//!
//! A set that a fork has left to this process is its parent's as well, and so is what the set has of
//! the parent's descriptors: the numbers are this process's, the file and the set are one. Such a
//! place is known, and is not changed for a reason that is this process's alone.

use heliostat_base::call;
use heliostat_base::lock::Lock;
use heliostat_base::sync::AtomicU64;
use heliostat_base::sync::Ordering::{Relaxed, Release};
use heliostat_base::sys::Errno;

use crate::owner::is_borrowed;

/// Places in epoll sets that are remembered; a program has few listening sockets in few sets.
const INTERESTS_MAX: usize = 1024;

static INTERESTS: Lock<Vec<Interest>> = Lock::new(Vec::new());
/// A bit for each number of theirs, sets' and descriptors', by its remainder: without its bit it has none.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

struct Interest {
    epoll: i32,
    fd: i32,
    event: libc::epoll_event,
    /// A fork has left it to this process.
    is_inherited: bool,
}

/// In which sets a number gets another file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sets {
    /// In those that this process has put it into: it alone changes what the number is.
    Own,
    /// In inherited ones too: what they have is of no use to their other processes either.
    All,
}

/// Whether any may be remembered of a number, a set's or a descriptor's. One load.
#[inline]
pub fn may_have(fd: i32) -> bool {
    NUMBERS.load(Relaxed) & bit(fd) != 0
}

fn bit(fd: i32) -> u64 {
    1 << (fd & 63)
}

fn note_numbers(interests: &[Interest]) {
    let numbers = interests.iter().fold(0, |all, it| all | bit(it.fd) | bit(it.epoll));
    NUMBERS.store(numbers, Release);
}

/// Lets `make` change what a set has of a listening descriptor, and remembers what the kernel has
/// accepted: one step to those who let the descriptor be another file.
pub fn change(
    (epoll, op, fd): (i32, i32, i32),
    event: Option<libc::epoll_event>,
    make: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    if is_borrowed() {
        return make();
    }
    let mut interests = INTERESTS.lock();
    // Who is woken by the new entry, and closes the number, waits for the lock.
    NUMBERS.fetch_or(bit(fd) | bit(epoll), Release);
    let answer = make()?;
    let known = interests.iter().position(|it| (it.epoll, it.fd) == (epoll, fd));
    match (known, event.filter(|_| op != libc::EPOLL_CTL_DEL)) {
        (Some(at), Some(event)) => {
            interests[at].event = event;
            interests[at].is_inherited &= op != libc::EPOLL_CTL_ADD;
        }
        (Some(at), None) => _ = interests.swap_remove(at),
        (None, Some(event)) if interests.len() < INTERESTS_MAX => {
            interests.push(Interest { epoll, fd, event, is_inherited: false });
        }
        (None, _) => {}
    }
    note_numbers(&interests);
    Ok(answer)
}

/// Lets `replace` give a number another file, which the sets that have the number then have. A
/// child of vfork has numbers of its own, and no set of its own.
pub fn carry_over<T>(fd: i32, sets: Sets, replace: impl FnOnce() -> T) -> T {
    if is_borrowed() {
        return replace();
    }
    let interests = INTERESTS.lock();
    let is_meant = |it: &&Interest| it.fd == fd && (sets == Sets::All || !it.is_inherited);
    let each = || interests.iter().filter(is_meant);
    // A set names what it holds by number and file: the old file has other numbers still.
    each().for_each(|it| _ = call::epoll_ctl(it.epoll, libc::EPOLL_CTL_DEL, fd, None));
    let answer = replace();
    each().for_each(|it| _ = call::epoll_ctl(it.epoll, libc::EPOLL_CTL_ADD, fd, Some(it.event)));
    answer
}

/// Whether some epoll set has one of them.
pub fn is_watched(fds: &[i32]) -> bool {
    INTERESTS.lock().iter().any(|interest| fds.contains(&interest.fd))
}

/// Whether a set does that was inherited with it.
pub fn is_inherited(fds: &[i32]) -> bool {
    let interests = INTERESTS.lock();
    interests.iter().any(|interest| interest.is_inherited && fds.contains(&interest.fd))
}

/// A number is closed, a set's or a listening descriptor's. `other` is one that the set has left.
pub fn closed(fd: i32, other: Option<i32>) {
    let mut interests = INTERESTS.lock();
    for interest in interests.iter_mut().filter(|interest| interest.epoll == fd) {
        interest.epoll = other.unwrap_or(NOWHERE);
    }
    interests.retain(|interest| interest.fd != fd && interest.epoll != NOWHERE);
    note_numbers(&interests);
}

/// Number of a set that is gone.
const NOWHERE: i32 = -1;

/// All numbers of a range are closed.
pub fn closed_range(first: u32, last: u32) {
    let is_left = |fd: i32| !(first..=last).contains(&(fd as u32));
    let mut interests = INTERESTS.lock();
    interests.retain(|interest| is_left(interest.fd) && is_left(interest.epoll));
    note_numbers(&interests);
}

/// In the child of a fork: what is in sets now is its parent's too.
pub fn reset_in_forked_child() {
    INTERESTS.reset_in_forked_child();
    let mut interests = INTERESTS.lock();
    interests.iter_mut().for_each(|interest| interest.is_inherited = true);
    note_numbers(&interests);
}
