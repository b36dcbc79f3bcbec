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
//! Which descriptor is whose is in `table`; what is asked of the control plane in `ask`.

mod ask;
mod own;
mod table;
mod take;

pub use own::{own_fds, owns};
pub use take::{take, Took};

use std::sync::OnceLock;

use heliostat_abi::listener::Rule;
use heliostat_abi::name::NetAddress;
use heliostat_base::call;
use heliostat_base::sys::Errno;

use crate::thread::Critical;
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

/// So often a listener is looked for that somebody is about to make, and so long apart: 0.5 s in all.
const FIND_LOOKS: usize = 50;
const FIND_NAP_NS: u64 = 10_000_000;

fn wanted(fd: i32) -> Option<Rule> {
    let port = call::local_address(fd)?.port();
    WANTED.get()?.iter().find(|(wanted, _)| *wanted == port).map(|(_, rule)| *rule)
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
    let is_nonblocking = table::was_nonblocking(fd).unwrap_or_else(|| call::is_nonblocking(fd));
    let Some(joined) = ask::join(fd, wanted(fd)) else { return };
    let Some(entry) = Entry::new(fd, joined.part()) else {
        return ask::leave(joined.epoch, joined.worker);
    };
    if table::replace(&[fd], joined.queue, is_nonblocking).is_err() {
        return ask::leave(joined.epoch, joined.worker);
    }
    ENTRIES.lock().push(entry);
    table::count();
    if table::is_watched(&[fd]) {
        ready(fd);
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
    if table::is_watched(&fds) {
        match ask::hold(worker) {
            Some(epoch) => _ = table::with(fd, |entry| entry.epoch = epoch),
            None => give_back(fd),
        }
        return;
    }
    let is_nonblocking = call::is_nonblocking(fd);
    let Some(joined) = ask::join(real, None) else { return give_back(fd) };
    let part = joined.part();
    if table::replace(&fds, joined.queue, is_nonblocking).is_err() {
        return give_back(fd);
    }
    table::with(fd, |entry| entry.begin_anew(part));
    table::count();
}

/// The number is the listening socket's again: what comes next (exec, another process, the kernel's
/// own rings) knows nothing of queues.
pub fn give_back(fd: i32) {
    if !is_shared(fd) {
        return;
    }
    let _critical = Critical::enter();
    if let Some((epoch, worker)) = table::restore(fd) {
        ask::leave(epoch, worker);
    }
}

/// The same in a child of vfork(2), which has descriptors of its own and tables of its parent's.
pub fn give_back_borrowed(fd: i32) {
    let Some(real) = listening_socket(fd) else { return };
    let nonblocking = call::is_nonblocking(fd);
    if let Ok(copy) = heliostat_base::fd::duplicate(real) {
        let _ = table::put(copy.into_raw(), fd, nonblocking);
    }
}

/// Gives a hidden number up because the program wants it (dup2): that listener cannot be given back.
pub fn vacate(fd: i32) {
    if owns(fd) {
        table::forget_real(fd);
    }
}

/// Before the kernel closes a descriptor.
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

/// A listening descriptor is put into an epoll set, changed there or taken out of it.
pub fn watched(epoll: i32, op: i32, fd: i32, event: Option<libc::epoll_event>) {
    table::note_interest(epoll, op, fd, event);
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

/// After bind(2) was refused because somebody has the address, or before it where it would make one
/// more socket of it (SO_REUSEPORT): the socket of a shared listener takes the place of `fd`.
pub fn bound_by_others(fd: i32, address: NetAddress) -> bool {
    if !crate::is_enabled() {
        return false;
    }
    let _critical = Critical::enter();
    // Whoever has bound it may be about to listen: of a port that is to be shared that is waited for.
    let is_named = WANTED.get().is_some_and(|it| it.iter().any(|(port, _)| *port == address.port));
    let looks = if is_named { FIND_LOOKS } else { 1 };
    let find = |look: usize| {
        if look > 0 {
            let _ = call::ppoll(&mut [], Some(FIND_NAP_NS), None);
        }
        ask::find(address)
    };
    let Some(found) = (0..looks).find_map(find) else { return false };
    let is_nonblocking = call::is_nonblocking(fd);
    table::remember_nonblocking(fd, is_nonblocking);
    // The socket is its thread's as well, which does not wait.
    table::put(found.into_raw(), fd, true).is_ok()
}

/// A socket whose place that of a shared listener has taken, and on which the program does not listen yet.
#[inline]
pub fn is_bound(fd: i32) -> bool {
    table::is_bound(fd)
}

/// The program says whether it is to block.
pub fn set_bound_mode(fd: i32, is_nonblocking: bool) {
    table::remember_nonblocking(fd, is_nonblocking);
}

/// A connection that came from a queue has been closed here for the last time.
#[cold]
pub fn closed(page: u32) {
    table::count_closed(page);
}

/// In the child of a fork: its session has not joined yet.
pub fn reset_in_forked_child() {
    table::reset_in_forked_child();
}
