//! Waits beside a flush: what is held back is published when that has ended, and the wait goes on.

use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};
use libc::pollfd;

use super::poll_alone;
use crate::net::commit;
use crate::thread::Interrupts;
use crate::{fail, flush, Answer};

/// What poll(2) and its like do first while something is not flushed; `None` when all is, and the wait
/// itself begins. `ends` is the monotonic time of the timeout.
#[cold]
pub fn outlast(fds: &mut [pollfd], ends: Option<u64>) -> Answer {
    let interrupts = Interrupts::now();
    let mut found = Ok(0);
    let mut copy = fds.to_vec();
    let look = || {
        found = now(fds);
        found != Ok(0) || interrupts.any_since()
    };
    let has_found = commit::outlast(ends, look, |rings| sleep(&mut copy, rings));
    match has_found {
        true if found == Ok(0) => fail(libc::EINTR),
        true => Some(found),
        false if ends.is_some_and(|ends| clock::monotonic_ns() >= ends) => Some(now(fds)),
        false => None,
    }
}

/// What a read that may block does first: waits until there is something to read, or all is flushed.
/// Only for a thread that is alone: another one could take what is there.
#[cold]
pub fn outlast_read(fd: i32) {
    let mut fds = [pollfd { fd, events: libc::POLLIN, revents: 0 }];
    let mut copy = fds.to_vec();
    commit::outlast(None, || now(&mut fds) != Ok(0), |rings| sleep(&mut copy, rings));
}

/// What is ready now.
fn now(fds: &mut [pollfd]) -> Result<usize, Errno> {
    poll_alone(fds, Some(0), None).unwrap_or_else(|| call::ppoll(fds, Some(0), None))
}

/// Sleeps until something is ready, or a flush has ended. No longer at once: another thread may take
/// the end of the flush, and the program's time may be over.
pub(in crate::event) fn sleep(fds: &mut Vec<pollfd>, rings: [i32; 2]) {
    let entry = |fd| pollfd { fd, events: libc::POLLIN, revents: 0 };
    let limit = Some(flush::sleep_at_most_ns());
    fds.extend(rings.map(entry));
    let _ = poll_alone(fds, limit, None).unwrap_or_else(|| call::ppoll(fds, limit, None));
    fds.truncate(fds.len() - rings.len());
}
