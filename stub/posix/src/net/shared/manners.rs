//! How sockets wait whose place that of a shared listener has taken, until the program listens.
//!
//! The socket that they have now is its thread's as well, which does not wait, and other programs'.
//! So whether it blocks, and for how long, is kept here, and told to the queue.

use heliostat_base::lock::Lock;
use heliostat_base::sync::AtomicBool;
use heliostat_base::sync::Ordering::{Relaxed, Release};

/// Sockets that are bound and do not listen yet: a program has few.
const MANNERS_MAX: usize = 1024;

static MANNERS: Lock<Vec<(i32, Manner)>> = Lock::new(Vec::new());
static IS_USED: AtomicBool = AtomicBool::new(false);

/// How a socket waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// Not at all (O_NONBLOCK).
    pub is_nonblocking: bool,
    /// For so long at most (SO_RCVTIMEO).
    pub timeout_ns: Option<u64>,
}

/// Whether any is kept.
#[inline]
pub fn are_used() -> bool {
    IS_USED.load(Relaxed)
}

/// Keeps one; false where there are too many.
pub fn keep(fd: i32, manner: Manner) -> bool {
    let mut manners = MANNERS.lock();
    manners.retain(|(it, _)| *it != fd);
    let is_kept = manners.len() < MANNERS_MAX;
    if is_kept {
        manners.push((fd, manner));
    }
    IS_USED.store(!manners.is_empty(), Release);
    is_kept
}

/// That of a descriptor, where one is kept.
#[inline]
pub fn of(fd: i32) -> Option<Manner> {
    let found = || MANNERS.lock().iter().find(|(it, _)| *it == fd).map(|(_, manner)| *manner);
    are_used().then(found)?
}

/// Changes that of a descriptor, where one is kept.
pub fn change(fd: i32, work: impl FnOnce(&mut Manner)) {
    if let Some((_, manner)) = MANNERS.lock().iter_mut().find(|(it, _)| *it == fd) {
        work(manner);
    }
}

/// Those of a range of numbers are kept no more: they are other files'.
pub fn forget(first: u32, last: u32) {
    let mut manners = MANNERS.lock();
    manners.retain(|(fd, _)| !(first..=last).contains(&(*fd as u32)));
    IS_USED.store(!manners.is_empty(), Release);
}

/// In the child of a fork: the lock is free.
pub fn reset_in_forked_child() {
    MANNERS.reset_in_forked_child();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_another_files_has_no_manner_any_more() {
        let manner = Manner { is_nonblocking: true, timeout_ns: Some(7) };
        assert!(keep(70_000, manner) && keep(70_009, manner));
        change(70_000, |manner| manner.is_nonblocking = false);
        assert_eq!(of(70_000), Some(Manner { is_nonblocking: false, timeout_ns: Some(7) }));
        forget(70_000, 70_000);
        assert_eq!((of(70_000), of(70_009)), (None, Some(manner)));
        forget(70_005, u32::MAX);
        assert_eq!((of(70_009), are_used()), (None, false));
    }
}
