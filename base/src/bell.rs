//! A bell between two processes: a connected pair of unix sockets, one end each.
//!
//! A ring is a byte, and the end of one side is readable at the other, so one descriptor in poll or
//! epoll tells of news and of death. Against an eventfd or a pipe: `send` with MSG_DONTWAIT on a
//! socket never waits, whatever the other side has done to the descriptor it shared, and what is no
//! socket is refused. A stream socket, because there a read of nothing means the end and nothing
//! else; an empty packet would look like one.
//!
//! The other side is noticed to be gone when its *last* copy is closed: a process that passes an
//! end on keeps none, and a forked child holds one more.

use std::os::fd::{AsRawFd, RawFd};

use crate::fd::OwnedFd;
use crate::sys::Errno;
use crate::{call, process};

/// What a ring says. Not zero: some protocols begin with a zero byte that vouches for its sender,
/// and nobody says that the other end is what it should be.
const RING: [u8; 1] = [1];
/// Rings taken by one look; a side that sends more at once only makes the other look again.
const TAKEN_AT_ONCE: usize = 256;

/// One end of a bell. Dropping it is noticed at the other end.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// Both ends of a new bell, closed on exec.
    pub fn pair() -> Result<(Bell, Bell), Errno> {
        let (one, other) = call::local_pair()?;
        // SAFETY: the kernel has just opened both for us.
        Ok(unsafe { (Bell(OwnedFd::adopt(one)), Bell(OwnedFd::adopt(other))) })
    }

    /// Takes an end over that came from somebody who is not trusted; `None` unless it is a unix
    /// socket.
    pub fn from_fd(fd: OwnedFd) -> Option<Bell> {
        let domain = call::option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_DOMAIN);
        (domain == Ok(libc::AF_UNIX)).then_some(Bell(fd))
    }

    /// Makes the other end readable. Never waits: an end that is full is readable already, and one
    /// that is gone hears nothing.
    pub fn ring(&self) {
        let _ = call::send(self.as_raw_fd(), &RING, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    }

    /// Takes all rings. False when the other end is gone. Never waits.
    pub fn drain(&self) -> bool {
        let mut rings = [0; TAKEN_AT_ONCE];
        match call::recv(self.as_raw_fd(), &mut rings, libc::MSG_DONTWAIT) {
            Ok(taken) => taken > 0,
            Err(Errno(errno)) => matches!(errno, libc::EAGAIN | libc::EINTR),
        }
    }

    /// Whether the other end is gone. Takes nothing. Never waits.
    pub fn is_deserted(&self) -> bool {
        let mut look = [libc::pollfd { fd: self.as_raw_fd(), events: 0, revents: 0 }];
        // A hang-up is always told.
        call::poll(&mut look, 0).is_ok() && look[0].revents & libc::POLLHUP != 0
    }

    /// Sleeps until this end is readable or the time is over; says whether it is readable. A
    /// signal ends the sleep early.
    pub fn wait(&self, timeout_ms: Option<u32>) -> Result<bool, Errno> {
        let limit = timeout_ms.map_or(-1, |ms| ms.min(i32::MAX as u32) as i32);
        process::poll_readable(self.as_raw_fd(), limit)
    }

    /// The descriptor, to pass this end on.
    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_bell_is_readable_after_a_ring_and_after_the_end() {
        let (near, far) = Bell::pair().unwrap();
        assert_eq!(near.wait(Some(0)), Ok(false));
        far.ring();
        far.ring();
        assert_eq!(near.wait(None), Ok(true));
        assert!(near.drain());
        assert_eq!(near.wait(Some(0)), Ok(false));
        assert!(near.drain(), "quiet is not gone");
        far.ring();
        assert!(!near.is_deserted());
        drop(far);
        // A child that another test forks has a copy of the far end until it ends.
        let patience = Instant::now() + Duration::from_secs(10);
        while !near.is_deserted() && Instant::now() < patience {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(near.is_deserted());
        assert!(near.drain(), "what was rung before the end comes first");
        assert_eq!(near.wait(None), Ok(true));
        assert!(!near.drain());
        near.ring();
    }

    #[test]
    fn a_bell_that_nobody_hears_does_not_block() {
        let (near, far) = Bell::pair().unwrap();
        // More than any socket buffer takes.
        (0..100_000).for_each(|_| far.ring());
        assert_eq!(near.wait(None), Ok(true));
    }

    #[test]
    fn only_a_unix_socket_is_a_bell() {
        let null = std::os::fd::OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert!(Bell::from_fd(null.into()).is_none());
        let tcp = std::os::fd::OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        assert!(Bell::from_fd(tcp.into()).is_none());
        let (near, far) = Bell::pair().unwrap();
        let far = Bell::from_fd(far.fd().duplicate().unwrap()).unwrap();
        far.ring();
        assert_eq!(near.wait(None), Ok(true));
    }
}
