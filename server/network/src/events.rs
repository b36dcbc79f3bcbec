//! What the kernel tells a loop: one epoll set, and what each of its events is about.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use heliostat_base::call;
use heliostat_base::sys::Errno;
use rustix::event::epoll::{self, CreateFlags};

/// Events taken at once.
const EVENTS_AT_ONCE: usize = 256;

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// Orders have come.
    Orders,
    /// A channel's link.
    Link(u32),
    /// A connection's socket to its remote peer.
    Socket(Place),
    /// The program's end of a connection.
    Shadow(Place),
}

/// A connection's place, and which use of it: events of an earlier one are nothing to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// In the table of connections.
    pub index: u32,
    /// Counts uses of the place.
    pub serial: u32,
}

/// Serials are cut to this.
const SERIAL_MASK: u64 = 0x0fff_ffff;

impl About {
    fn word(self) -> u64 {
        let place = |kind: u64, place: Place| {
            kind << 60 | (u64::from(place.serial) & SERIAL_MASK) << 32 | u64::from(place.index)
        };
        match self {
            Self::Orders => 0,
            Self::Link(index) => 1 << 60 | u64::from(index),
            Self::Socket(at) => place(2, at),
            Self::Shadow(at) => place(3, at),
        }
    }

    fn of(word: u64) -> Self {
        let place = Place { index: word as u32, serial: (word >> 32 & SERIAL_MASK) as u32 };
        match word >> 60 {
            0 => Self::Orders,
            1 => Self::Link(place.index),
            2 => Self::Socket(place),
            _ => Self::Shadow(place),
        }
    }
}

impl Place {
    /// Whether both are of the same use.
    pub fn is_of(self, serial: u32) -> bool {
        u64::from(self.serial) == u64::from(serial) & SERIAL_MASK
    }
}

/// The set.
pub struct EventSet {
    epoll: OwnedFd,
    room: Vec<libc::epoll_event>,
}

impl EventSet {
    /// A set without a descriptor.
    ///
    /// # Errors
    /// The system has no descriptor.
    pub fn create() -> std::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, room: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_AT_ONCE] })
    }

    /// Watches a descriptor from now on, until it is closed by all who have it open, or `forget`.
    ///
    /// # Errors
    /// The kernel has no memory, or no more watches for this user.
    pub fn watch(&self, fd: impl AsFd, events: i32, about: About) -> Result<(), Errno> {
        let event = libc::epoll_event { events: events as u32, u64: about.word() };
        let fd = fd.as_fd().as_raw_fd();
        call::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, Some(event)).map(|_| ())
    }

    /// Watches a descriptor no more; nothing where it was not watched.
    pub fn forget(&self, fd: impl AsFd) {
        let fd = fd.as_fd().as_raw_fd();
        let _ = call::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, None);
    }

    /// What has come, after at most that long; for ever where nothing is said.
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> impl Iterator<Item = (About, u32)> + '_ {
        let epoll = self.epoll.as_raw_fd();
        let count = call::epoll_wait(epoll, &mut self.room, timeout_ns, None).unwrap_or(0);
        self.room[..count].iter().map(|event| (About::of(event.u64), event.events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_says_what_it_is_about() {
        let place = Place { index: 9, serial: 0x0abc_def1 };
        for about in [About::Orders, About::Link(7), About::Socket(place), About::Shadow(place)] {
            assert_eq!(About::of(about.word()), about);
        }
    }

    #[test]
    fn a_serial_that_has_grown_beyond_its_bits_is_still_recognised() {
        let word = About::Socket(Place { index: 1, serial: 0xf000_0005 }).word();
        let About::Socket(place) = About::of(word) else { panic!("another kind") };
        assert!(place.is_of(0xf000_0005) && !place.is_of(6));
    }
}
