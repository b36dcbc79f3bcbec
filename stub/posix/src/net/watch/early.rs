//! TCP sockets that are put into epoll sets before they are connected.
//!
//! Most event loops do that: a non-blocking socket, epoll_ctl(2), connect(2), which says
//! EINPROGRESS, and "writable" tells that it is connected. Until then the kernel reports the
//! socket, as the program asked; what it asked for is remembered here. For the time of connect(2)
//! the kernel's entries are *silenced*, so that no other thread hears that the socket is connected
//! before this one has made the offer. After it they become a direct stream's, or what they were.

use libc::epoll_event;

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_base::lock::Lock;
use heliostat_base::sys::Errno;

use super::mark;
use super::sets::{self, set_for};
use crate::table::{self, DescriptorKind};

/// Sockets that are waited for at once; further ones stay native.
const EARLY_MAX: usize = 4096;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
const EDGE: u32 = libc::EPOLLET as u32;

static EARLY: Lock<Vec<Early>> = Lock::new(Vec::new());

/// What the program asked of one socket in one set.
pub struct Early {
    fd: i32,
    /// The set.
    pub set: u32,
    /// What it asked for.
    pub event: epoll_event,
    /// The kernel reports nothing of it for now.
    is_silenced: bool,
    /// A one-shot that has been told.
    pub is_spent: bool,
}

impl Early {
    /// Its set, after a look whether a one-shot has been told.
    fn look(&mut self) -> Result<i32, Native> {
        let epoll = sets::descriptor_of(self.set).ok_or(Native::PolledBefore)?;
        if self.event.events & ONESHOT != 0 {
            let left = call::epoll_events(epoll, self.fd).ok_or(Native::PolledBefore)?;
            self.is_spent = left & !(EDGE | ONESHOT) == 0;
        }
        Ok(epoll)
    }

    /// What the kernel shall report again.
    pub fn asked(&self) -> epoll_event {
        let events = match self.is_spent {
            true => self.event.events & (EDGE | ONESHOT),
            false => self.event.events,
        };
        epoll_event { events, u64: self.event.u64 }
    }
}

/// After EPOLL_CTL_ADD; false when it cannot be remembered.
pub fn added(epoll: i32, fd: i32, event: epoll_event) -> bool {
    remember(epoll, fd, event) && table::set(fd, DescriptorKind::Early)
}

/// As `added`, of an accepted connection whose offer may still come.
pub fn remember(epoll: i32, fd: i32, event: epoll_event) -> bool {
    let Some(set) = set_for(epoll) else { return false };
    let mut early = EARLY.lock();
    if early.len() == EARLY_MAX {
        return false;
    }
    early.push(Early { fd, set, event, is_silenced: false, is_spent: false });
    true
}

/// EPOLL_CTL_MOD, which `by_kernel` makes as it is.
pub fn modify(
    epoll: i32,
    fd: i32,
    event: epoll_event,
    by_kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let set = set_for(epoll);
    let mut early = EARLY.lock();
    let found = early.iter_mut().find(|entry| entry.fd == fd && Some(entry.set) == set);
    let Some(entry) = found else { return by_kernel() };
    if !entry.is_silenced {
        by_kernel()?;
    }
    (entry.event, entry.is_spent) = (event, false);
    Ok(0)
}

/// EPOLL_CTL_DEL.
pub fn delete(
    epoll: i32,
    fd: i32,
    by_kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let set = set_for(epoll);
    let mut early = EARLY.lock();
    by_kernel()?;
    early.retain(|entry| entry.fd != fd || Some(entry.set) != set);
    if table::kind(fd) == DescriptorKind::Early && early.iter().all(|entry| entry.fd != fd) {
        table::set(fd, DescriptorKind::Unknown);
    }
    Ok(0)
}

/// The descriptor becomes something else, or another one refers to the same socket.
pub fn forget(fd: i32) {
    EARLY.lock().retain(|entry| entry.fd != fd);
}

/// The set is gone.
pub fn forget_set(set: u32) {
    EARLY.lock().retain(|entry| entry.set != set);
}

/// The kernel reports nothing of the socket for now.
///
/// # Errors
/// The reason why the connection has to be native.
pub fn silence(fd: i32) -> Result<(), Native> {
    for entry in EARLY.lock().iter_mut().filter(|entry| entry.fd == fd) {
        let epoll = entry.look()?;
        // Errors are reported whatever is asked for: once, under a mark that no interest has.
        let nothing = mark::data(mark::number(), mark::PLACES_MAX - 1);
        let silent = epoll_event { events: EDGE, u64: nothing };
        call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, Some(silent))
            .map_err(|_| Native::PolledBefore)?;
        entry.is_silenced = true;
    }
    Ok(())
}

/// After connect(2) that failed, or where the connection is native: all is as it was.
pub fn restore(fd: i32) {
    for entry in EARLY.lock().iter_mut().filter(|entry| entry.fd == fd && entry.is_silenced) {
        entry.is_silenced = false;
        if let Some(epoll) = sets::descriptor_of(entry.set) {
            let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, Some(entry.asked()));
        }
    }
}

/// The kernel's sets have the socket no more, whose descriptor becomes another file.
///
/// # Errors
/// One of them cannot be found: all are as they were.
pub fn withdraw(fd: i32) -> Result<(), Native> {
    let take_out = |entry: &mut Early| {
        let epoll = entry.look()?;
        call::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, None).map_err(|_| Native::PolledBefore)?;
        entry.is_silenced = true;
        Ok(())
    };
    let answer = EARLY.lock().iter_mut().filter(|entry| entry.fd == fd).try_for_each(take_out);
    if answer.is_err() {
        put_again(fd);
    }
    answer
}

/// After `withdraw`, where the descriptor is the socket still.
pub fn put_again(fd: i32) {
    for entry in EARLY.lock().iter_mut().filter(|entry| entry.fd == fd && entry.is_silenced) {
        entry.is_silenced = false;
        if let Some(epoll) = sets::descriptor_of(entry.set) {
            let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, Some(entry.asked()));
        }
    }
}

/// One of the socket's entries, which is remembered no more.
pub fn take(fd: i32) -> Option<Early> {
    let mut early = EARLY.lock();
    let at = early.iter().position(|entry| entry.fd == fd)?;
    Some(early.swap_remove(at))
}

/// The sets in which the socket is.
pub fn sets_of(fd: i32) -> Vec<u32> {
    EARLY.lock().iter().filter(|entry| entry.fd == fd).map(|entry| entry.set).collect()
}

/// In the child of a fork.
pub fn reset_in_forked_child() {
    EARLY.reset_in_forked_child();
}
