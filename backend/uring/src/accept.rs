//! accept(2) that does not wait, whatever mode the listening socket has.
//!
//! O_NONBLOCK is of an open file, which other processes may have as well and change at any moment: for
//! who accepts it promises nothing. The ring first tries without waiting, whatever the file says; what
//! it would then wait for is called off at once.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use io_uring::{opcode, squeue, types, IoUring, Probe};

/// Operations at once: one, and what calls it off.
const ENTRIES: u32 = 2;
/// User data of what accepts.
const ACCEPTS: u64 = 1;
/// User data of what calls it off.
const CALLS_OFF: u64 = 2;

/// A ring that accepts for one thread at a time. Between two calls nothing is under way.
pub struct Acceptor {
    /// None after a failure that left something in it.
    ring: Option<IoUring>,
}

impl Acceptor {
    /// A ring of its own.
    ///
    /// # Errors
    /// What io_uring_setup(2) answers: ENOSYS or EPERM where it is switched off. Unsupported before
    /// Linux 5.6, which does not say what it can do.
    pub fn create() -> io::Result<Acceptor> {
        Ok(Acceptor { ring: Some(ring()?) })
    }

    /// The next connection, if there is one now; WouldBlock otherwise.
    ///
    /// # Errors
    /// What accept(2) answers, or io_uring_enter(2).
    pub fn accept(&mut self, socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let ring = match &mut self.ring {
            Some(ring) => ring,
            none => none.insert(ring()?),
        };
        let accepted = accept(ring, socket);
        if accepted.is_err() {
            // What it holds must not be submitted with the next one.
            self.ring = None;
        }
        match accepted? {
            // SAFETY: the kernel has just made this descriptor for whoever takes the completion.
            fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            error if is_called_off(-error) => Err(io::ErrorKind::WouldBlock.into()),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}

fn ring() -> io::Result<IoUring> {
    let ring = IoUring::new(ENTRIES)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(|_| io::ErrorKind::Unsupported)?;
    let needed = [opcode::Accept::CODE, opcode::AsyncCancel::CODE];
    match needed.into_iter().all(|code| probe.is_supported(code)) {
        true => Ok(ring),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Whether it waited when it was called off. A kernel that lets a thread of its own wait interrupts that.
fn is_called_off(errno: i32) -> bool {
    matches!(errno, libc::ECANCELED | libc::EINTR | libc::EAGAIN)
}

/// What the kernel answers; an error is the ring's.
fn accept(ring: &mut IoUring, socket: BorrowedFd<'_>) -> io::Result<i32> {
    let fd = types::Fd(socket.as_raw_fd());
    let entry = opcode::Accept::new(fd, null_mut(), null_mut()).flags(libc::SOCK_CLOEXEC);
    push(ring, &entry.build().user_data(ACCEPTS))?;
    enter(ring, 0)?;
    loop {
        if let Some(answer) = answer(ring) {
            return Ok(answer);
        }
        // Where it has just been woken it may wait again, and is called off again.
        push(ring, &opcode::AsyncCancel::new(ACCEPTS).build().user_data(CALLS_OFF))?;
        enter(ring, 1)?;
    }
}

/// Enters the kernel until everything is submitted and so many completions are there.
fn enter(ring: &mut IoUring, want: usize) -> io::Result<()> {
    loop {
        match ring.submit_and_wait(want) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) if ring.submission().is_empty() => return Ok(()),
            Ok(_) => {}
        }
    }
}

/// What the one that accepts has answered. What is left of earlier ones that call off is thrown away.
fn answer(ring: &mut IoUring) -> Option<i32> {
    let all = ring.completion();
    all.filter(|it| it.user_data() == ACCEPTS).map(|it| it.result()).last()
}

fn push(ring: &mut IoUring, entry: &squeue::Entry) -> io::Result<()> {
    // SAFETY: it points to nothing, and its descriptor is open until it has completed.
    unsafe { ring.submission().push(entry) }.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    #[test]
    fn what_may_wait_does_not_and_what_is_there_is_accepted() {
        let Ok(mut acceptor) = Acceptor::create() else { return };
        for is_nonblocking in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(is_nonblocking).unwrap();
            for _ in 0..3 {
                let began = Instant::now();
                let none = acceptor.accept(listener.as_fd()).unwrap_err();
                assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
                assert!(began.elapsed() < Duration::from_secs(5));
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let accepted = TcpStream::from(acceptor.accept(listener.as_fd()).unwrap());
                assert_eq!(accepted.peer_addr().unwrap(), client.local_addr().unwrap());
            }
        }
    }

    #[test]
    fn what_does_not_listen_is_an_error_and_the_next_is_accepted() {
        let Ok(mut acceptor) = Acceptor::create() else { return };
        let datagram = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(acceptor.accept(datagram.as_fd()).is_err());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(acceptor.accept(listener.as_fd()).is_ok());
    }
}
