//! How many bytes have been taken from a TCP socket and given to it, as the kernel has counted.
//!
//! ```text
//! taken = bytes received in order - bytes that lie there          tcpi_bytes_received, SIOCINQ
//! given = bytes acknowledged      + bytes that are not            tcpi_bytes_acked, SIOCOUTQ
//! ```
//! An end of the stream counts as a byte in both directions, and is taken out by the socket's state;
//! a connection's beginning may count too. So only differences between two looks mean anything. Both
//! parts of a number are asked one after the other: the first is asked again until nothing came
//! between.

use heliostat_base::sys::{check, raw, Errno, Sysno};

/// Looks until two agree; an acknowledgement comes between seldom, and a few of them hardly ever.
const LOOKS_MAX: u32 = 1000;
/// Bytes of tcp_info that are asked for: to the end of tcpi_bytes_received (source: linux/tcp.h).
const INFO_BYTES: usize = 136;
const ACKED_AT: usize = 120;
const RECEIVED_AT: usize = 128;
/// Bytes of TCP that are not acknowledged (source: linux/sockios.h).
const SIOCOUTQ: u32 = 0x5411;
const SIOCINQ: u32 = 0x541b;

/// States of a TCP socket (source: tcp_states.h).
mod state {
    pub const FIN_WAIT1: u8 = 4;
    pub const FIN_WAIT2: u8 = 5;
    pub const TIME_WAIT: u8 = 6;
    pub const CLOSE: u8 = 7;
    pub const CLOSE_WAIT: u8 = 8;
    pub const LAST_ACK: u8 = 9;
    pub const CLOSING: u8 = 11;
}

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Positions {
    /// Payload bytes taken from the socket, and a constant.
    pub taken: u64,
    /// Payload bytes given to it, and a constant.
    pub given: u64,
    /// Both ends are over. Whether one of ours was acknowledged nobody says any more: then `given` has
    /// a byte more than there was.
    pub is_closed: bool,
}

/// The kernel does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// It is no TCP socket, or an old kernel's.
    NotTold(Errno),
    /// Acknowledgements come faster than it can be asked.
    Unsteady,
}

impl From<Errno> for Unknown {
    fn from(errno: Errno) -> Self {
        Self::NotTold(errno)
    }
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotTold(errno) => write!(f, "the kernel does not count for this socket: {errno}"),
            Self::Unsteady => write!(f, "the socket's counters do not hold still"),
        }
    }
}
impl std::error::Error for Unknown {}

struct Info {
    state: u8,
    acked: u64,
    received: u64,
}

impl Positions {
    /// Of a socket that nobody moves bytes of now.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn of(fd: i32) -> Result<Self, Unknown> {
        for _ in 0..LOOKS_MAX {
            let before = info(fd)?;
            let (unsent, queued) = (queue(fd, SIOCOUTQ)?, queue(fd, SIOCINQ)?);
            let after = info(fd)?;
            if (before.state, before.acked, before.received)
                == (after.state, after.acked, after.received)
            {
                return Ok(Self::from_counters(&after, unsent, queued));
            }
        }
        Err(Unknown::Unsteady)
    }

    fn from_counters(info: &Info, unsent: u64, queued: u64) -> Self {
        use state::{CLOSE, CLOSE_WAIT, CLOSING, FIN_WAIT1, FIN_WAIT2, LAST_ACK, TIME_WAIT};
        // Of one that was reset nobody says whether an end had come: a byte less is TCP's to lose.
        let has_ended = matches!(info.state, CLOSE_WAIT | LAST_ACK | CLOSING | TIME_WAIT | CLOSE);
        let has_shut = matches!(info.state, FIN_WAIT1 | FIN_WAIT2 | CLOSING | LAST_ACK | TIME_WAIT);
        let taken = info.received.wrapping_sub(queued).wrapping_sub(u64::from(has_ended));
        let given = info.acked.wrapping_add(unsent).wrapping_sub(u64::from(has_shut));
        Self { taken, given, is_closed: info.state == CLOSE }
    }

    /// Bytes taken and given since an earlier look.
    pub fn since(&self, earlier: &Self) -> (u64, u64) {
        (self.taken.wrapping_sub(earlier.taken), self.given.wrapping_sub(earlier.given))
    }
}

fn info(fd: i32) -> Result<Info, Unknown> {
    let mut bytes = [0u8; INFO_BYTES];
    let mut length = INFO_BYTES as u32;
    let (at, length_at) = (bytes.as_mut_ptr() as usize, &raw mut length as usize);
    let args = [fd as usize, libc::IPPROTO_TCP as usize, libc::TCP_INFO as usize, at, length_at, 0];
    // SAFETY: the room has as many bytes as its length says, and both are live.
    check(unsafe { raw(Sysno::getsockopt as usize, args) })?;
    if (length as usize) < INFO_BYTES {
        return Err(Errno(libc::ENOSYS).into());
    }
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|place| bytes[at + place]));
    Ok(Info { state: bytes[0], acked: word(ACKED_AT), received: word(RECEIVED_AT) })
}

fn queue(fd: i32, which: u32) -> Result<u64, Unknown> {
    let mut count = 0i32;
    let args = [fd as usize, which as usize, &raw mut count as usize, 0, 0, 0];
    // SAFETY: both requests write an int.
    check(unsafe { raw(Sysno::ioctl as usize, args) })?;
    Ok(count.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn of(stream: &TcpStream) -> Positions {
        Positions::of(stream.as_raw_fd()).unwrap()
    }

    #[test]
    fn what_was_taken_and_given_is_counted_on_both_sides_of_a_connection() {
        let (mut client, mut server) = pair();
        let (at_client, at_server) = (of(&client), of(&server));
        client.write_all(&[1; 5000]).unwrap();
        server.read_exact(&mut [0; 1200]).unwrap();
        server.write_all(&[2; 70]).unwrap();
        assert_eq!(of(&client).since(&at_client), (0, 5000));
        assert_eq!(of(&server).since(&at_server), (1200, 70));
        client.read_exact(&mut [0; 70]).unwrap();
        assert_eq!(of(&client).since(&at_client), (70, 5000));
    }

    #[test]
    fn an_end_is_no_byte_whether_it_was_seen_or_not() {
        let (mut client, mut server) = pair();
        let (at_client, at_server) = (of(&client), of(&server));
        client.write_all(&[1; 10]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(of(&client).since(&at_client), (0, 10));
        assert_eq!(of(&server).since(&at_server), (0, 0));
        server.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(of(&server).since(&at_server), (4, 0));
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).unwrap();
        assert_eq!((rest.len(), of(&server).since(&at_server)), (6, (10, 0)));
        server.shutdown(Shutdown::Write).unwrap();
        client.read_to_end(&mut rest).unwrap();
        let over = of(&server);
        let (taken, given) = over.since(&at_server);
        assert!(taken == 10 && given <= u64::from(over.is_closed), "{over:?}");
        let over = of(&client);
        let (taken, given) = over.since(&at_client);
        assert!(taken == 0 && given <= 10 + u64::from(over.is_closed), "{over:?}");
    }

    #[test]
    fn what_does_not_fit_the_peers_window_counts_as_given() {
        let (client, server) = pair();
        client.set_nonblocking(true).unwrap();
        let at_client = of(&client);
        let mut sent = 0;
        while let Ok(count) = (&client).write(&[3; 65536]) {
            sent += count as u64;
        }
        assert_eq!(of(&client).since(&at_client), (0, sent));
        drop(server);
    }

    #[test]
    fn a_socket_of_another_kind_is_not_told() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(matches!(Positions::of(one.as_raw_fd()), Err(Unknown::NotTold(_))));
    }
}
