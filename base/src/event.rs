//! An eventfd: the doorbell for a side that sleeps in poll or epoll.
//!
//! Where nothing needs to be readable as a descriptor a futex is cheaper; see `futex`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::fd::OwnedFd;
use crate::sys::{check, raw, Errno, Sysno};

/// A counter in the kernel that becomes readable when it is rung.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// Makes an event that nobody has rung; non-blocking and closed on exec.
    pub fn create() -> Result<Event, Errno> {
        let flags = (libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) as usize;
        // SAFETY: eventfd2 takes no pointer.
        let fd = check(unsafe { raw(Sysno::eventfd2 as usize, [0, flags, 0, 0, 0, 0]) })?;
        // SAFETY: the kernel has just opened it for us.
        Ok(Event(unsafe { OwnedFd::adopt(fd as RawFd) }))
    }

    /// Takes over a descriptor received from elsewhere; it is not checked to be an eventfd.
    pub fn from_fd(fd: OwnedFd) -> Event {
        Event(fd)
    }

    /// Makes the event readable. A full counter (EAGAIN) is readable already, so that is success.
    pub fn ring(&self) -> Result<(), Errno> {
        let one = 1u64;
        let args = [self.0.as_raw_fd() as usize, &one as *const u64 as usize, 8, 0, 0, 0];
        // SAFETY: `one` is eight readable bytes for the whole call.
        match check(unsafe { raw(Sysno::write as usize, args) }) {
            Ok(_) | Err(Errno(libc::EAGAIN)) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Takes all rings at once and says how many there were; 0 if none.
    pub fn drain(&self) -> Result<u64, Errno> {
        let mut count = 0u64;
        let args = [self.0.as_raw_fd() as usize, &mut count as *mut u64 as usize, 8, 0, 0, 0];
        // SAFETY: `count` is eight writable bytes for the whole call.
        match check(unsafe { raw(Sysno::read as usize, args) }) {
            Ok(_) => Ok(count),
            Err(Errno(libc::EAGAIN)) => Ok(0),
            Err(errno) => Err(errno),
        }
    }

    /// Sleeps until the event is readable or the time is over; says whether it is readable.
    pub fn wait(&self, timeout_ms: Option<u32>) -> Result<bool, Errno> {
        let limit = timeout_ms.map_or(-1, |ms| ms.min(i32::MAX as u32) as i32);
        crate::process::poll_readable(self.0.as_raw_fd(), limit)
    }

    /// A second descriptor of the same event, to hand to another process.
    pub fn duplicate(&self) -> Result<Event, Errno> {
        self.0.duplicate().map(Event)
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Event {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_readable_after_a_ring_and_quiet_after_a_drain() {
        let event = Event::create().expect("a descriptor is free");
        assert_eq!(event.wait(Some(0)), Ok(false));
        event.ring().expect("rings");
        event.duplicate().expect("duplicates").ring().expect("rings");
        assert_eq!(event.wait(Some(1000)), Ok(true));
        assert_eq!(event.drain(), Ok(2));
        assert_eq!(event.drain(), Ok(0));
        assert_eq!(event.wait(Some(0)), Ok(false));
    }
}
