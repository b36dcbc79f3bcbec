//! Shared listeners: the listening descriptor is a queue of connections that the control plane gives.
//!
//! ```text
//! listen(2) --Join--> the number is the queue's, and the listening socket has a hidden number
//! accept(2) --------> recvmsg(2) on the queue: a connection, and who it is
//! the queue's end --> the number is the listening socket's again: the program accepts by itself
//! ```
//! So epoll, poll, select and a blocking accept(2) wait by the kernel's own means, and what is asked of
//! the listening socket (its address, its options) is asked of that. A queue that ends loses nothing:
//! the control plane gives what lies in it to others, and new connections come to the socket.
//!
//! Which descriptor is whose is in `table`; which epoll sets have it in `interests`; how a socket waits
//! that is bound and does not listen yet in `manners`; what is asked of the control plane in `ask`.

mod ask;
mod bound;
mod interests;
mod manners;
mod own;
mod table;
mod take;

pub use bound::{
    bound_by_others, end_bound, is_bound_nonblocking, reused_by_others, set_bound_mode,
    set_bound_timeout,
};
pub use own::{own_fds, owns};
pub use take::{take, Took};

use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use heliostat_abi::listener::Rule;
use heliostat_backend_tcp::copy_timeouts;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::Errno;
use heliostat_base::{call, packet};

use crate::owner::is_borrowed;
use crate::table::{self as descriptors, DescriptorKind};
use crate::thread::Critical;
use interests::Sets;
use manners::Manner;
use table::{Entry, ENTRIES};

/// Ports that `heliostat run --share` names.
static WANTED: OnceLock<Vec<(u16, Rule)>> = OnceLock::new();

/// Takes `PORT[:RULE],...`; what is none of that is left out, since the command has checked it.
pub fn configure(text: &str) {
    let one = |part: &str| {
        let (port, rule) = part.split_once(':').unwrap_or((part, Rule::LeastLoad.name()));
        Some((port.parse().ok()?, Rule::parse(rule)?))
    };
    let _ = WANTED.set(text.split(',').filter_map(one).collect());
}

fn wanted(fd: i32) -> Option<Rule> {
    let port = call::local_address(fd)?.port();
    WANTED.get()?.iter().find(|(wanted, _)| *wanted == port).map(|(_, rule)| *rule)
}

/// Whether `heliostat run --share` names a port.
fn is_wanted(port: u16) -> bool {
    WANTED.get().is_some_and(|it| it.iter().any(|(wanted, _)| *wanted == port))
}

/// Whether a descriptor is the queue of a shared listener.
#[inline]
pub fn is_shared(fd: i32) -> bool {
    table::is_used() && table::with(fd, |_| ()).is_some()
}

/// The listening socket beneath a shared descriptor.
pub fn listening_socket(fd: i32) -> Option<i32> {
    table::is_used().then(|| table::with(fd, |entry| entry.real()))?
}

/// A socket that listens: where its address is shared, its number becomes a queue's.
pub fn join(fd: i32) {
    if is_shared(fd) {
        return;
    }
    let _critical = Critical::enter();
    if !becomes_queue(fd) {
        return end_bound(fd);
    }
    manners::forget(fd as u32, fd as u32);
    if interests::is_watched(&[fd]) {
        ready(fd);
    }
}

fn becomes_queue(fd: i32) -> bool {
    let manner = manners::of(fd);
    let is_nonblocking = manner.map_or_else(|| call::is_nonblocking(fd), |it| it.is_nonblocking);
    let Some(joined) = ask::join(fd, wanted(fd)) else { return false };
    let Some(entry) = Entry::new(fd, joined.part()) else {
        ask::leave(joined.epoch, joined.worker);
        return false;
    };
    match manner {
        Some(manner) => limit_waits(&joined.queue, manner),
        None => copy_timeouts(fd, joined.queue.as_raw_fd()),
    }
    if table::replace(&[fd], joined.queue, is_nonblocking).is_err() {
        ask::leave(joined.epoch, joined.worker);
        return false;
    }
    ENTRIES.lock().push(entry);
    table::count();
    true
}

/// accept(2) waits by the queue's own timeout.
fn limit_waits(queue: &OwnedFd, manner: Manner) {
    if let Some(ns) = manner.timeout_ns {
        let _ = packet::set_timeouts(queue.as_raw_fd(), ns.div_ceil(1_000_000));
    }
}

/// The program waits for connections on it: from now on some are given to it.
pub fn ready(fd: i32) {
    if !table::is_ready_due() {
        return;
    }
    let _critical = Critical::enter();
    let unready = table::with(fd, |entry| {
        let was_ready = std::mem::replace(&mut entry.is_ready, true);
        (!was_ready).then_some((entry.epoch, entry.worker))
    });
    if let Some(Some((epoch, worker))) = unready {
        ask::ready(epoch, worker);
    }
    table::count();
}

/// Before poll(2) or select(2) of these descriptors.
#[inline]
pub fn polled(fds: impl Iterator<Item = i32>) {
    if table::is_ready_due() {
        fds.for_each(ready);
    }
}

/// In another session than the one that joined (after a fork, or with another control plane): a
/// process of its own has a queue of its own, unless epoll sets that it has inherited name this one.
pub fn renew(fd: i32, epoch: u64) {
    let _critical = Critical::enter();
    let Some(Some((worker, real, fds))) = table::with(fd, |entry| {
        (entry.epoch != epoch).then(|| (entry.worker, entry.real(), entry.fds.clone()))
    }) else {
        // Of this session already, or given back when the last control plane ended.
        return join(fd);
    };
    if interests::is_inherited(&fds) {
        // Where that is refused, this process takes what comes until the queue ends: in the set there
        // is nothing else to take.
        let _ = ask::hold(worker);
        table::with(fd, |entry| entry.epoch = epoch);
        return;
    }
    let is_nonblocking = call::is_nonblocking(fd);
    let Some(joined) = ask::join(real, None) else { return give_back(fd) };
    let part = joined.part();
    copy_timeouts(fd, joined.queue.as_raw_fd());
    if table::replace(&fds, joined.queue, is_nonblocking).is_err() {
        return give_back(fd);
    }
    table::with(fd, |entry| entry.begin_anew(part));
    table::count();
    if interests::is_watched(&fds) {
        ready(fd);
    }
}

/// The number is the listening socket's again: what comes next (exec, another process, the kernel's
/// own rings) knows nothing of queues.
pub fn give_back(fd: i32) {
    if !is_shared(fd) {
        return;
    }
    let _critical = Critical::enter();
    if let Some((epoch, worker)) = table::restore(fd, Sets::Own) {
        ask::leave(epoch, worker);
    }
}

/// The same in a child of vfork(2), which has descriptors of its own and tables of its parent's.
pub fn give_back_borrowed(fd: i32) {
    let Some(real) = listening_socket(fd) else { return };
    let nonblocking = call::is_nonblocking(fd);
    if let Ok(copy) = heliostat_base::fd::duplicate(real) {
        let _ = table::put(copy.into_raw(), fd, nonblocking, Sets::Own);
    }
}

/// Gives a hidden number up because the program wants it (dup2).
pub fn vacate(fd: i32) {
    if owns(fd) && !is_borrowed() {
        table::move_real(fd);
    }
}

/// Whether a number that is no known descriptor must not become another file unseen: a listening
/// socket is hidden there, or one that bind(2) has exchanged.
#[inline]
pub fn knows(fd: i32) -> bool {
    owns(fd) || manners::of(fd).is_some()
}

/// Whether something may be remembered of a number: how it waited, or which sets it was or had. No lock.
#[inline]
pub fn may_remember(fd: i32) -> bool {
    manners::are_used() || interests::may_have(fd)
}

/// Before a number is another file's, in the process whose number it is: that is forgotten.
pub fn forget(fd: i32) {
    if !may_remember(fd) {
        return;
    }
    let kind = descriptors::kind(fd);
    let is_same_set = |it: &(i32, DescriptorKind)| it.0 != fd && it.1 == kind;
    let other = match kind {
        DescriptorKind::Epoll(_) => descriptors::walk(0, u32::MAX).find(is_same_set),
        _ => None,
    };
    interests::closed(fd, other.map(|(fd, _)| fd));
    manners::forget(fd as u32, fd as u32);
}

/// The same of a range, whose numbers that are known were forgotten one by one.
pub fn forget_range(first: u32, last: u32) {
    let _critical = Critical::enter();
    interests::closed_range(first, last);
    manners::forget(first, last);
}

/// Before the kernel closes a listening descriptor.
pub fn closing(fd: i32) {
    if !table::is_used() {
        return;
    }
    if let Some((epoch, worker)) = table::close(fd) {
        ask::leave(epoch, worker);
    }
}

/// One more descriptor refers to it (dup).
pub fn duplicated(old: i32, new: i32) {
    if table::is_used() {
        table::with(old, |entry| entry.fds.push(new));
    }
}

/// Whether a listening descriptor is in an epoll set, by what is remembered.
#[inline]
pub fn is_watched(fd: i32) -> bool {
    interests::may_have(fd) && interests::is_watched(&[fd])
}

/// A listening descriptor is put into an epoll set, changed there or taken out of it, by `make`.
pub fn watched(
    change: (i32, i32, i32),
    event: Option<libc::epoll_event>,
    make: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    interests::change(change, event, make)
}

/// shutdown(2): this process accepts no more; other workers go on.
pub fn shut(fd: i32, how: i32) -> Option<Result<usize, Errno>> {
    if how == libc::SHUT_WR || !is_shared(fd) {
        return None;
    }
    let left = table::with(fd, |entry| {
        entry.is_shut = true;
        (entry.epoch, entry.worker)
    })?;
    ask::leave(left.0, left.1);
    Some(call::shutdown(fd, libc::SHUT_RD))
}

/// A connection that came from a queue has been closed here for the last time.
#[cold]
pub fn closed(page: u32) {
    table::count_closed(page);
}

/// In the child of a fork: its session has not joined yet.
pub fn reset_in_forked_child() {
    interests::reset_in_forked_child();
    manners::reset_in_forked_child();
    table::reset_in_forked_child();
}
