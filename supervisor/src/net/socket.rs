//! A socket of the program, as the supervisor holds it while it answers one call.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use heliostat_backend_seal::{self as seal, Reply};
use heliostat_base::call;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::Errno;
use rustix::fs::OFlags;
use rustix::net::{sockopt, AddressFamily, SocketType};

use super::kept::{self, KIND};
use crate::call::{Answer, Call};
use crate::errno::errno;
use crate::filter;

/// How long one wait lasts before it is looked whether anybody still waits for the answer.
const TICK: Duration = Duration::from_millis(250);
/// Rounds of a wait that the kernel calls over although nothing got better.
const PAUSE: Duration = Duration::from_millis(5);

/// A second descriptor of a socket of the program's.
pub struct Socket {
    /// It.
    pub fd: OwnedFd,
    /// What kind of addresses it has.
    pub family: AddressFamily,
    /// Stream, datagram or packets.
    pub kind: SocketType,
}

impl Socket {
    /// Descriptor `number` of the caller. EBADF, ENOTSOCK; `unkept` of a socket that cannot be
    /// copied and is not kept any more, or never was.
    pub fn of(call: &Call<'_>, number: i32, unkept: i32) -> Result<Self, Errno> {
        let fd = match &call.supervisor.made {
            Some(made) => kept::find(call, made, number)?.ok_or(Errno(unkept))?,
            None => match seal::descriptor_of(call.thread(), number) {
                // What pidfd_getfd(2) says of a number below zero.
                Err(Errno(libc::EINVAL)) => return Err(Errno(libc::EBADF)),
                other => other?,
            },
        };
        let family = sockopt::socket_domain(&fd).map_err(errno)?;
        let kind = sockopt::socket_type(&fd).map_err(errno)?;
        Ok(Self { fd, family, kind })
    }

    /// Whether calls on it return at once.
    pub fn is_nonblocking(&self) -> bool {
        rustix::fs::fcntl_getfl(&self.fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
    }

    /// Whether it has one peer and one order of bytes.
    pub fn is_stream(&self) -> bool {
        self.kind == SocketType::STREAM
    }

    /// Whether it has one peer, and no more is asked about it once it is connected.
    pub fn is_connection(&self) -> bool {
        self.kind != SocketType::DGRAM
    }

    /// Whether the program hears of the end of a MSG_ZEROCOPY; elsewhere the kernel ignores it.
    pub fn tells_of_copies(&self) -> bool {
        let set = call::option(self.fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ZEROCOPY);
        set.is_ok_and(|set| set != 0)
    }

    /// Connects, waiting as long as the program would; ends when it does not wait any more.
    ///
    /// A limit on the socket's own waiting makes the kernel come back now and then
    /// (SO_SNDTIMEO, socket(7)): it bounds connect(2) too.
    pub fn connect(
        &self,
        call: &Call<'_>,
        once: impl Fn(&OwnedFd) -> rustix::io::Result<()>,
    ) -> Result<(), Errno> {
        use rustix::io::Errno as E;
        if self.is_nonblocking() {
            return once(&self.fd).map_err(errno);
        }
        let send = sockopt::Timeout::Send;
        let own = sockopt::socket_timeout(&self.fd, send).map_err(errno)?;
        let begun = Instant::now();
        loop {
            let left = own.map_or(TICK, |own| own.saturating_sub(begun.elapsed()));
            if left.is_zero() {
                return Err(Errno(libc::EINPROGRESS));
            }
            sockopt::set_socket_timeout(&self.fd, send, Some(left.min(TICK))).map_err(errno)?;
            let done = once(&self.fd);
            sockopt::set_socket_timeout(&self.fd, send, own).map_err(errno)?;
            match done {
                Err(E::INPROGRESS | E::ALREADY | E::AGAIN) => call.check()?,
                other => return other.map_err(errno),
            }
        }
    }

    /// Waits until it takes more. EAGAIN when the program would not wait, or no longer.
    pub fn await_room(&self, call: &Call<'_>, begun: Instant) -> Result<(), Errno> {
        use rustix::event::{poll, PollFd, PollFlags, Timespec};
        let own = sockopt::socket_timeout(&self.fd, sockopt::Timeout::Send).map_err(errno)?;
        if self.is_nonblocking() || own.is_some_and(|own| begun.elapsed() >= own) {
            return Err(Errno(libc::EAGAIN));
        }
        let mut wanted = [PollFd::new(&self.fd, PollFlags::OUT)];
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as i64 };
        let ready = poll(&mut wanted, Some(&tick)).map_err(errno)?;
        if ready > 0 {
            // Room of its own is there, but perhaps none at the other end (unix datagrams).
            std::thread::sleep(PAUSE);
        }
        call.check()
    }
}

/// socket(2) and socketpair(2) that the filter did not let pass. The numbers are in registers:
/// what is judged is what the kernel goes on with.
pub fn make(call: &Call<'_>) -> Answer {
    let (domain, kind, protocol) = (call.int(0), call.int(1) & KIND, call.int(2));
    let packets = domain == libc::AF_UNIX && kind == libc::SOCK_SEQPACKET && protocol == 0;
    match &call.supervisor.made {
        Some(made) if packets || filter::passes_socket([domain, kind, protocol]) => {
            return kept::make(call, made)
        }
        None if packets => return Ok(Reply::Continue),
        _ => {}
    }
    call.note_call(&format!("sockets of domain {domain}, type {kind}, protocol {protocol}"));
    Err(Errno(match domain {
        libc::AF_UNIX | libc::AF_INET | libc::AF_INET6 if kind == libc::SOCK_RAW => libc::EPERM,
        libc::AF_UNIX | libc::AF_INET | libc::AF_INET6 => libc::EPROTONOSUPPORT,
        // libc's getaddrinfo, ps and Go go on without it.
        _ => libc::EAFNOSUPPORT,
    }))
}
