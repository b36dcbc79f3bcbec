//! What no safe crate offers, some socket options first: the one unsafe corner of the daemon.

#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Source: asm-generic/socket.h (Linux 5.14).
const SO_NETNS_COOKIE: libc::c_int = 71;
/// Source: asm-generic/socket.h (Linux 4.13).
const SO_PEERGROUPS: libc::c_int = 59;
/// Source: asm-generic/socket.h (Linux 6.5).
const SO_PEERPIDFD: libc::c_int = 77;
/// Most supplementary groups of a process (source: linux/limits.h).
const NGROUPS_MAX: usize = 65536;

/// The kernel's number for the network namespace that a socket was made in. Unlike the inode
/// under /proc it needs no right over the process and cannot be raced by setns(2).
pub fn namespace_cookie(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = [0u64];
    let found = option(&socket, SO_NETNS_COOKIE, &mut cookie)?;
    if found == size_of::<u64>() {
        Ok(cookie[0])
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Supplementary groups of the process at the other end of a unix socket.
pub fn peer_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    let found = match option(&socket, SO_PEERGROUPS, &mut groups) {
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {
            groups.resize(NGROUPS_MAX, 0);
            option(&socket, SO_PEERGROUPS, &mut groups)?
        }
        answer => answer?,
    };
    groups.truncate(found / size_of::<u32>());
    Ok(groups)
}

/// The process at the other end of a unix socket, as a descriptor that no other process inherits.
pub fn peer_process(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut number = [u32::MAX];
    option(&socket, SO_PEERPIDFD, &mut number)?;
    // SAFETY: the kernel has just opened this descriptor for us and told nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number[0] as RawFd) })
}

/// Whether everything was read that was sent on a unix socket: the kernel counts the memory of what
/// waits against its sender (unix(7), SIOCOUTQ).
pub fn is_all_read(socket: impl AsFd) -> bool {
    let mut waits: libc::c_int = 0;
    // SAFETY: the request writes one int, which `waits` is; the descriptor is open, it is borrowed.
    let answer = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut waits) };
    answer == 0 && waits == 0
}

/// Closes every descriptor but the standard three.
///
/// To be called first of all in a process that was started in the background: what it inherited
/// by accident (a lock, the end of somebody's pipe) would otherwise stay open as long as it runs.
pub fn close_inherited() {
    let (first, last, flags) = (3, libc::c_uint::MAX, 0);
    // SAFETY: the caller is at the start of its process, so no value owns a descriptor yet. Where
    // the kernel does not know the call (before 5.9) they stay open, which is untidy only.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
}

/// Gives the calling thread descriptors of its own: the standard ones, and one more. Others' are theirs
/// alone from then on, and go with them, however long this thread lasts. Nothing changes where the kernel
/// refuses that. The thread uses nothing any more that was opened before, but what is kept.
pub fn part_descriptors(kept: Option<BorrowedFd<'_>>) {
    // SAFETY: the call takes no memory, and changes nothing that other threads see.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return;
    }
    let kept = kept.map_or(2, |fd| fd.as_raw_fd() as libc::c_uint);
    for (first, last) in [(3, kept.saturating_sub(1)), (kept + 1, libc::c_uint::MAX)] {
        if first <= last {
            // SAFETY: the table is this thread's, and no value that it uses owns one of these; those that own
            // them are other threads', in whose table they stay open.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

/// A number that any bytes are a value of; keeps `option` sound for its callers.
trait Number: Copy {}
impl Number for u32 {}
impl Number for u64 {}

fn option<T: Number>(socket: &impl AsFd, name: libc::c_int, into: &mut [T]) -> io::Result<usize> {
    let mut length = std::mem::size_of_val(into) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `into` is writable for `length` bytes, any bytes are a value of its elements
    // (Number), and the kernel writes no more than `length`; `fd` is open, it is borrowed.
    let answer = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, name, into.as_mut_ptr().cast(), &mut length)
    };
    if answer == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    #[test]
    fn sockets_of_one_process_are_in_one_namespace() {
        let (one, other) = UnixStream::pair().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let cookie = namespace_cookie(&one).unwrap();
        assert_eq!(cookie, namespace_cookie(&other).unwrap());
        assert_eq!(cookie, namespace_cookie(&tcp).unwrap());
    }

    #[test]
    fn what_was_sent_is_read_once_it_was_received() {
        use std::io::{Read, Write};
        let (mut one, mut other) = UnixStream::pair().unwrap();
        assert!(is_all_read(&one));
        one.write_all(b"x").unwrap();
        assert!(!is_all_read(&one) && is_all_read(&other));
        other.read_exact(&mut [0]).unwrap();
        assert!(is_all_read(&one));
    }

    #[test]
    fn the_groups_of_our_own_peer_are_ours() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(peer_groups(&one).is_ok());
        assert!(peer_groups(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
