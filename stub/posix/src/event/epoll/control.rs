//! epoll_ctl(2) on sets that hold, or come to hold, direct streams.

use std::sync::atomic::Ordering::Relaxed;

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_base::sys::Errno;

use crate::net::socket::{self, Stage};
use crate::net::watch::early;
use crate::net::watch::enter::{enter_socket, put};
use crate::net::watch::interest::Interest;
use crate::net::watch::sets::{set_for, Set, SETS};
use crate::net::{accept, connecting, demote, kernel, listen, shared, shared_set};
use crate::table::{self, DescriptorKind};
use crate::thread::Critical;
use crate::{fail, Answer};

/// epoll_ctl(2); `by_kernel` makes the call as it is. `None`: the kernel does it, and nothing of it
/// concerns us. The event is looked at only where `fd` is a connection.
pub fn control(
    epoll: i32,
    op: i32,
    fd: i32,
    event: Option<libc::epoll_event>,
    by_kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Answer {
    let kind = table::kind(fd);
    let _critical = Critical::enter();
    match (op, kind, event) {
        (op, DescriptorKind::Socket(index), event)
            if connecting::is_connecting(index) || is_undecided(fd, index) =>
        {
            control_undecided(epoll, op, fd, event, by_kernel)
        }
        (libc::EPOLL_CTL_ADD, DescriptorKind::Socket(index), Some(event)) => {
            add(epoll, fd, index, event)
        }
        (_, DescriptorKind::Listener(_), _) => {
            // A forked worker's queue is its own before the set has it.
            listen::noticed(fd);
            Some(shared::watched((epoll, op, fd), event, by_kernel))
        }
        (libc::EPOLL_CTL_ADD, DescriptorKind::Unknown, _) if listen::noticed(fd) => {
            Some(shared::watched((epoll, op, fd), event, by_kernel))
        }
        (_, DescriptorKind::Unknown, _) if shared::is_watched(fd) => {
            Some(shared::watched((epoll, op, fd), event, by_kernel))
        }
        (libc::EPOLL_CTL_ADD, DescriptorKind::Unknown | DescriptorKind::Early, _) => {
            let early = event.filter(|event| kind == DescriptorKind::Early || is_early(fd, event));
            Some(add_native(epoll, fd, early, by_kernel))
        }
        (libc::EPOLL_CTL_ADD, DescriptorKind::Epoll(index), _) => {
            shared_set::leave_to_kernel(index, Native::Nested);
            None
        }
        (libc::EPOLL_CTL_MOD, DescriptorKind::Socket(_), Some(event)) => modify(epoll, fd, event),
        (libc::EPOLL_CTL_DEL, DescriptorKind::Socket(_), _) => delete(epoll, fd),
        (libc::EPOLL_CTL_MOD, DescriptorKind::Early, Some(event)) => {
            Some(early::modify(epoll, fd, event, by_kernel))
        }
        (libc::EPOLL_CTL_DEL, DescriptorKind::Early, _) => {
            Some(early::delete(epoll, fd, by_kernel))
        }
        _ => None,
    }
}

/// An accepted connection whose offer may still come, when it is looked for once more.
#[inline]
fn is_undecided(fd: i32, index: u32) -> bool {
    let socket = socket::at(index);
    if socket.stage() != Stage::Undecided {
        return false;
    }
    accept::decide(fd, index, None);
    socket.stage() == Stage::Undecided
}

/// Before EPOLL_CTL_ADD of a descriptor that nobody knows: is it one to be remembered? An
/// exclusive entry cannot be changed in the kernel, and what is connected already stays native.
fn is_early(fd: i32, event: &libc::epoll_event) -> bool {
    event.events & libc::EPOLLEXCLUSIVE as u32 == 0
        && kernel::is_tcp(fd)
        && call::peer_address(fd).is_none()
}

/// Of one that is connected still, or may be an offer's: the kernel reports it, and what is asked is remembered; what cannot be stays the kernel's.
fn control_undecided(
    epoll: i32,
    op: i32,
    fd: i32,
    event: Option<libc::epoll_event>,
    by_kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Answer {
    Some(match (op, event) {
        (libc::EPOLL_CTL_ADD, Some(event)) => by_kernel().inspect(|_| {
            let is_exclusive = event.events & libc::EPOLLEXCLUSIVE as u32 != 0;
            if is_exclusive || !early::remember(epoll, fd, event) {
                if let DescriptorKind::Socket(index) = table::kind(fd) {
                    connecting::give_up(fd, index);
                    accept::decide(fd, index, Some(Native::Crossed));
                }
            }
        }),
        (libc::EPOLL_CTL_MOD, Some(event)) => early::modify(epoll, fd, event, by_kernel),
        (libc::EPOLL_CTL_DEL, _) => early::delete(epoll, fd, by_kernel),
        _ => return None,
    })
}

/// What is no connection yet is the kernel's; with an event, it may become one.
fn add_native(
    epoll: i32,
    fd: i32,
    early: Option<libc::epoll_event>,
    by_kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let answer = by_kernel()?;
    let is_remembered = early.is_some_and(|event| early::added(epoll, fd, event));
    if !is_remembered {
        early::forget(fd);
        table::set(fd, DescriptorKind::Polled);
    }
    Ok(answer)
}

fn add(epoll: i32, fd: i32, index: u32, event: libc::epoll_event) -> Answer {
    let Some(set_index) = set_for(epoll) else {
        // Not an epoll descriptor, or one too many.
        if socket::at(index).stream().is_some() && call::is_epoll(epoll) {
            demote::leave(fd, index, Native::TableFull);
        }
        return None;
    };
    let set = &SETS[set_index as usize];
    shared_set::enter(set_index, set);
    let mut inner = set.inner.lock();
    if let Some(reason) = inner.kernel_only {
        drop(inner);
        demote::leave(fd, index, reason);
        // Until the peer has switched too, this process looks at the ring.
        socket::at(index).stream()?;
        inner = set.inner.lock();
    }
    if let Some(place) = inner.place_of(fd) {
        let interest = inner.at(place)?;
        let generation = socket::at(index).generation();
        if interest.socket == index && interest.generation == generation {
            if interest.is_active {
                return fail(libc::EEXIST);
            }
            interest.modify(event);
            return put(epoll, set, inner, place);
        }
        // The number belonged to another connection, which a dup keeps open.
        inner.remove(epoll, place);
    }
    drop(inner);
    add_new(epoll, set_index, fd, index, event)
}

/// Adds a connection that the set does not hold.
#[cold]
fn add_new(epoll: i32, set_index: u32, fd: i32, index: u32, event: libc::epoll_event) -> Answer {
    // The set's lock comes after the connection's.
    let stream = socket::at(index).stream()?;
    let mut inner = SETS[set_index as usize].inner.lock();
    if inner.place_of(fd).is_some() {
        // Another thread was faster.
        drop(inner);
        return add(epoll, fd, index, event);
    }
    let place = inner.insert(Interest::new(fd, index, stream, event));
    drop(inner);
    match place {
        Some(place) => enter_socket(epoll, set_index, index, place),
        None => {
            demote::leave(fd, index, Native::TableFull);
            None
        }
    }
}

/// The set, which this process uses from now on.
fn entered(epoll: i32) -> Option<&'static Set> {
    let index = set_for(epoll)?;
    let set = &SETS[index as usize];
    shared_set::enter(index, set);
    Some(set)
}

fn modify(epoll: i32, fd: i32, event: libc::epoll_event) -> Answer {
    let set = entered(epoll)?;
    let mut inner = set.inner.lock();
    let place = inner.place_of(fd)?;
    let interest = inner.at(place)?;
    if !interest.is_active {
        return fail(libc::ENOENT);
    }
    interest.modify(event);
    put(epoll, set, inner, place)
}

fn delete(epoll: i32, fd: i32) -> Answer {
    let set = entered(epoll)?;
    let mut inner = set.inner.lock();
    let place = inner.place_of(fd)?;
    let interest = inner.at(place)?;
    if !interest.is_active {
        return fail(libc::ENOENT);
    }
    interest.is_active = false;
    interest.since = 0;
    if set.family.load(Relaxed) != 0 {
        // Another process must not find it in the kernel's set.
        inner.remove(epoll, place);
    }
    Some(Ok(0))
}
