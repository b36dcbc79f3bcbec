//! epoll_ctl(2) on sets that hold, or come to hold, direct streams.

use std::sync::atomic::Ordering::Acquire;

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_base::lock::Guard;
use heliostat_base::sys::Errno;

use super::{kernel_event, mark, set_for, set_of, Set, SETS, SETS_MAX, USED};
use crate::event::interest::Interest;
use crate::event::set::{Interests, SHADOW_EVENTS};
use crate::net::{demote, socket};
use crate::table::{self, Kind};
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
        (libc::EPOLL_CTL_ADD, Kind::Socket(index), Some(event)) => add(epoll, fd, index, event),
        (libc::EPOLL_CTL_ADD, Kind::Unknown, _) => {
            let answer = by_kernel();
            if answer.is_ok() {
                table::set(fd, Kind::Polled);
            }
            Some(answer)
        }
        (libc::EPOLL_CTL_ADD, Kind::Epoll(index), _) => {
            nest(index);
            None
        }
        (libc::EPOLL_CTL_MOD, Kind::Socket(_), Some(event)) => modify(epoll, fd, event),
        (libc::EPOLL_CTL_DEL, Kind::Socket(_), _) => delete(epoll, fd),
        _ => None,
    }
}

fn is_nested(epoll: i32) -> bool {
    set_of(epoll).is_some_and(|set| set.inner.lock().is_nested)
}

/// A set inside another set is looked at by the kernel alone: its streams go native.
fn nest(index: u32) {
    let mut inner = SETS[index as usize % SETS_MAX].inner.lock();
    inner.is_nested = true;
    let direct: Vec<(i32, u32)> = inner
        .all()
        .filter(|interest| interest.stream.is_some())
        .map(|interest| (interest.fd, interest.socket))
        .collect();
    drop(inner);
    for (fd, socket) in direct {
        demote::leave(fd, socket, Native::Nested);
    }
}

fn add(epoll: i32, fd: i32, index: u32, event: libc::epoll_event) -> Answer {
    if table::kind(epoll) == Kind::Polled || is_nested(epoll) {
        demote::leave(fd, index, Native::Nested);
        return None;
    }
    if let Some(set) = set_of(epoll) {
        let mut inner = set.inner.lock();
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
    }
    let stream = socket::at(index).stream()?;
    let Some(set_index) = set_for(epoll) else {
        demote::leave(fd, index, Native::TableFull);
        return None;
    };
    let set = &SETS[set_index as usize];
    let mut inner = set.inner.lock();
    let is_first = inner.is_empty();
    let place = inner.insert(Interest::new(fd, index, Some(stream), event));
    if is_first {
        // Only the kernel knows whether `epoll` is an epoll descriptor at all.
        if let Err(errno) = inner.register(epoll, mark(), place) {
            inner.remove(epoll, place);
            drop(inner);
            table::set(epoll, Kind::Unknown);
            USED.lock()[set_index as usize] = false;
            return Some(Err(errno));
        }
    }
    socket::at(index).sets.lock().insert(set_index);
    let answer = put(epoll, set, inner, place);
    if socket::at(index).is_native() {
        // Another thread took it off the direct path before it could see this set.
        super::life::became_native(index);
    }
    answer
}

fn modify(epoll: i32, fd: i32, event: libc::epoll_event) -> Answer {
    let set = set_of(epoll)?;
    let mut inner = set.inner.lock();
    let place = inner.place_of(fd)?;
    let interest = inner.at(place)?;
    if !interest.is_active {
        return fail(libc::ENOENT);
    }
    interest.modify(event);
    put(epoll, set, inner, place)
}

/// An interest was added or changed: it is looked at from now on, or the kernel is told.
pub(super) fn put(epoll: i32, set: &Set, mut inner: Guard<'_, Interests>, place: usize) -> Answer {
    let interest = inner.at(place)?;
    if interest.stream.is_none() {
        let op = if interest.in_kernel { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
        let event = kernel_event(interest.kernel_events(), place);
        interest.in_kernel = true;
        return Some(call::epoll_ctl(epoll, op, interest.fd, Some(event)));
    }
    inner.heat(place);
    kick_if_asleep(epoll, set, inner, place);
    Some(Ok(0))
}

fn delete(epoll: i32, fd: i32) -> Answer {
    let set = set_of(epoll)?;
    let mut inner = set.inner.lock();
    let place = inner.place_of(fd)?;
    let interest = inner.at(place)?;
    if !interest.is_active {
        return fail(libc::ENOENT);
    }
    interest.is_active = false;
    if interest.stream.is_none() {
        inner.remove(epoll, place);
    }
    Some(Ok(0))
}

/// Another thread sleeps in the kernel and does not look at what was just put in: the interest
/// is armed, and if it is ready already, the kernel is made to report its shadow, by asking
/// once for "writable", which it is.
fn kick_if_asleep(epoll: i32, set: &Set, mut inner: Guard<'_, Interests>, place: usize) {
    if set.sleepers.load(Acquire) == 0 || inner.register(epoll, mark(), place).is_err() {
        return;
    }
    let Some(interest) = inner.at(place) else { return };
    interest.arm();
    if interest.is_ready() {
        let event = kernel_event(SHADOW_EVENTS | libc::EPOLLOUT as u32, place);
        let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, interest.fd, Some(event));
    }
}
