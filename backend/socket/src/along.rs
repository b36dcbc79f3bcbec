//! Bytes from a local socket that a stranger has open too, and the descriptors that he sends along.
//!
//! A receive without room for descriptors closes them, in the thread that makes it, and their last close
//! may wait as long as the stranger likes. What the socket's options add (credentials, a security label,
//! a descriptor of the sender's process) the stranger may switch on at any time.

use std::os::fd::RawFd;

use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::{check, raw, Errno, Sysno};

/// Descriptors that one message brings at most (SCM_MAX_FD of the kernel).
const FDS_MAX: usize = 253;
const HEAD: usize = 16;
/// Beside the descriptors, what options add: of a security label nobody says how long it is.
const ROOM: usize = HEAD + FDS_MAX * 4 + 4 + 1024;
/// A descriptor of the sender's process (source: linux/socket.h).
const SCM_PIDFD: i32 = 4;

/// Room for control messages, aligned as cmsg(3) asks.
#[repr(C, align(8))]
struct Ancillary([u8; ROOM]);

/// What one receive has found.
#[derive(Debug)]
pub struct Received {
    /// Bytes that were put into the caller's room; none at the end.
    pub count: usize,
    /// Descriptors that came along.
    pub fds: Vec<OwnedFd>,
    /// There was no room for all that came along, or in the table of descriptors.
    pub is_cut: bool,
}

/// Receives without waiting.
///
/// # Errors
/// As recvmsg(2): nothing is there, or the connection was reset.
pub fn receive(socket: RawFd, bytes: &mut [u8]) -> Result<Received, Errno> {
    receive_as(socket, bytes, 0)
}

/// Looks at what a receive would take, and leaves it there; the descriptors are further ones of the same files.
///
/// # Errors
/// As [`receive`].
pub fn peek(socket: RawFd, bytes: &mut [u8]) -> Result<Received, Errno> {
    receive_as(socket, bytes, libc::MSG_PEEK)
}

fn receive_as(socket: RawFd, bytes: &mut [u8], how: libc::c_int) -> Result<Received, Errno> {
    let mut ancillary = Ancillary([0; ROOM]);
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    header.msg_controllen = ROOM;
    let flags = (libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC | how) as usize;
    let args = [socket as usize, &raw mut header as usize, flags, 0, 0, 0];
    // SAFETY: header, part, bytes and ancillary are live and exclusively ours.
    let count = check(unsafe { raw(Sysno::recvmsg as usize, args) })?;
    let fds = take_fds(&ancillary.0[..header.msg_controllen.min(ROOM)]);
    Ok(Received { count, fds, is_cut: header.msg_flags & libc::MSG_CTRUNC != 0 })
}

fn take_fds(mut messages: &[u8]) -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    while messages.len() >= HEAD {
        let word = |at: usize| i32::from_ne_bytes(std::array::from_fn(|byte| messages[at + byte]));
        let length = u64::from_ne_bytes(std::array::from_fn(|byte| messages[byte])) as usize;
        let length = length.clamp(HEAD, messages.len());
        let kind = (word(8), word(12));
        if let (libc::SOL_SOCKET, libc::SCM_RIGHTS | SCM_PIDFD) = kind {
            let places = (HEAD..length.saturating_sub(3)).step_by(4);
            // One that it could not make is negative.
            for fd in places.map(word).filter(|fd| *fd >= 0) {
                // SAFETY: the kernel has just installed it for this message, and nobody else knows its
                // number.
                let fd = unsafe { OwnedFd::adopt(fd) };
                // That of a process nobody has sent, and no close of it waits for anybody.
                if kind.1 == libc::SCM_RIGHTS {
                    taken.push(fd);
                }
            }
        }
        messages = &messages[length.next_multiple_of(8).min(messages.len())..];
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use heliostat_base::{call, packet};

    use super::*;

    #[test]
    fn descriptors_come_beside_bytes_whatever_the_options_add() {
        let (near, far) = UnixStream::pair().unwrap();
        for option in [libc::SO_PASSCRED, libc::SO_PASSSEC, 76 /* SO_PASSPIDFD */] {
            let _ = call::set_option(far.as_raw_fd(), libc::SOL_SOCKET, option, 1);
        }
        let sent: Vec<i32> = vec![near.as_raw_fd(); packet::FDS_MAX];
        packet::send(near.as_raw_fd(), &[1, 2], &sent).unwrap();
        let mut bytes = [0; 8];
        let looked = peek(far.as_raw_fd(), &mut bytes).unwrap();
        let Received { count, fds, is_cut } = receive(far.as_raw_fd(), &mut bytes).unwrap();
        assert_eq!((looked.count, looked.fds.len(), looked.is_cut), (2, fds.len(), false));
        assert_eq!((count, &bytes[..2], is_cut), (2, &[1, 2][..], false));
        assert_eq!(fds.len(), sent.len());
        let same = call::inode(near.as_raw_fd());
        let are_its = fds.iter().filter(|fd| call::inode(fd.as_raw_fd()) == same).count();
        assert_eq!(are_its, sent.len());
    }

    #[test]
    fn bytes_alone_come_alone_and_nothing_is_not_waited_for() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"abc").unwrap();
        let mut bytes = [0; 2];
        let received = receive(far.as_raw_fd(), &mut bytes).unwrap();
        assert_eq!((received.count, &bytes, received.fds.len()), (2, b"ab", 0));
        assert_eq!(receive(far.as_raw_fd(), &mut bytes).unwrap().count, 1);
        assert_eq!(receive(far.as_raw_fd(), &mut bytes).err(), Some(Errno(libc::EAGAIN)));
    }
}
