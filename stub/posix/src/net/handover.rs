//! A socket of some epoll sets becomes a stream: from the kernel's report of it to this process's.

use libc::epoll_event;

use heliostat_abi::code::Native;
use heliostat_base::call;

use super::watch::early;
use super::watch::enter::enter_socket;
use super::watch::interest::Interest;
use super::watch::set::SHADOW_EVENTS;
use super::watch::sets::{self, SETS};
use super::{shared_set, socket, switch};

/// Before connect(2), or before an offer is claimed: the kernel's entries are silenced.
///
/// # Errors
/// The reason why the connection has to be native.
pub fn silence(fd: i32) -> Result<(), Native> {
    check_sets(fd)?;
    early::silence(fd)
}

/// Before another file takes the descriptor's place: the kernel's entries are taken out.
///
/// # Errors
/// The reason why the connection has to be native; the entries are as they were.
pub fn withdraw(fd: i32) -> Result<(), Native> {
    check_sets(fd)?;
    early::withdraw(fd)
}

fn check_sets(fd: i32) -> Result<(), Native> {
    for index in early::sets_of(fd) {
        shared_set::enter(index, &SETS[index as usize]);
        if let Some(reason) = SETS[index as usize].inner.lock().kernel_only {
            return Err(reason);
        }
    }
    Ok(())
}

/// After `withdraw`, and after connection `index` was handed to a loop: what was asked for is asked of it.
pub fn become_carried(fd: i32, index: u32) {
    while let Some(entry) = early::take(fd) {
        let (Some(epoll), Some(stream)) =
            (sets::descriptor_of(entry.set), socket::at(index).stream())
        else {
            continue;
        };
        let mut interest = Interest::of_early(fd, index, stream, entry.event, entry.is_spent);
        interest.in_kernel = false;
        let place = SETS[entry.set as usize].inner.lock().insert(interest);
        match place {
            Some(place) => _ = enter_socket(epoll, entry.set, index, place),
            None => {
                switch::leave_at_once(fd, index, Native::TableFull);
                let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, Some(entry.asked()));
            }
        }
    }
}

/// After the offer of connection `index` was made, or claimed: what was asked for is asked of the stream.
pub fn become_stream(fd: i32, index: u32) {
    while let Some(entry) = early::take(fd) {
        let Some(epoll) = sets::descriptor_of(entry.set) else { continue };
        let Some(stream) = socket::at(index).stream() else {
            let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, Some(entry.asked()));
            continue;
        };
        let mut inner = SETS[entry.set as usize].inner.lock();
        let interest = Interest::of_early(fd, index, stream, entry.event, entry.is_spent);
        let Some(place) = inner.insert(interest) else {
            drop(inner);
            let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, Some(entry.asked()));
            switch::leave(fd, index, Native::TableFull);
            continue;
        };
        if let Some(interest) = inner.at(place) {
            let event = epoll_event { events: SHADOW_EVENTS, u64: interest.mark(place) };
            let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, Some(event));
        }
        drop(inner);
        enter_socket(epoll, entry.set, index, place);
    }
}
