//! A SEQPACKET control socket: one record per message, descriptors beside it.
//!
//! Made by raw calls, because the stub talks to the control plane from beneath libc.

use std::os::fd::{AsRawFd, RawFd};

use crate::descriptor_limit;
use crate::fd::OwnedFd;
use crate::sys::{check, raw, Errno, Sysno};

/// Descriptors that one message may bring; more are closed by the kernel.
pub const FDS_MAX: usize = 16;

/// A connected control socket, closed on exec.
pub struct PacketSocket(OwnedFd);

/// Room for `FDS_MAX` descriptors in a control message, aligned as cmsg(3) asks.
#[repr(C, align(8))]
struct Ancillary([u8; 16 + FDS_MAX * 4]);

impl PacketSocket {
    /// Connects to the socket file at `path`; waits at most `timeout_ms` for each later answer.
    pub fn connect(path: &str, timeout_ms: u64) -> Result<Self, Errno> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        let args = [libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0];
        // SAFETY: socket takes no pointer, and the fresh number is ours alone.
        let fd = unsafe { OwnedFd::adopt(check(raw(Sysno::socket as usize, args))? as RawFd) };
        let mut address = [0u8; 110];
        address[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
        let name = path.as_bytes();
        if name.len() > 107 {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        address[2..2 + name.len()].copy_from_slice(name);
        set_timeouts(fd.as_raw_fd(), timeout_ms)?;
        let length = 2 + name.len() + 1;
        let args = [fd.as_raw_fd() as usize, address.as_ptr() as usize, length, 0, 0, 0];
        // SAFETY: `address` holds `length` bytes and outlives the call.
        check(unsafe { raw(Sysno::connect as usize, args) })?;
        Ok(Self(fd))
    }

    /// Moves the socket out of the program's way: above its limit of descriptors, or at least to the
    /// number `lowest`.
    pub fn move_above(self, lowest: i32) -> Self {
        match descriptor_limit::duplicate_above(self.0.as_raw_fd(), lowest) {
            Ok(high) => Self(high),
            Err(_) => self,
        }
    }

    /// Sends one record with the given descriptors.
    pub fn send(&self, record: &[u8], fds: &[RawFd]) -> Result<(), Errno> {
        send(self.fd(), record, fds)
    }

    /// As the function `receive`.
    pub fn receive(&self, record: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
        receive(self.fd(), record)
    }

    /// The descriptor number.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Sends one record with the given descriptors on a local socket.
pub fn send(socket: RawFd, record: &[u8], fds: &[RawFd]) -> Result<(), Errno> {
    let mut ancillary = Ancillary([0; 16 + FDS_MAX * 4]);
    let count = fds.len().min(FDS_MAX);
    let used = 16 + count * 4;
    ancillary.0[..8].copy_from_slice(&used.to_ne_bytes());
    ancillary.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    ancillary.0[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
    for (place, fd) in fds.iter().take(count).enumerate() {
        ancillary.0[16 + place * 4..20 + place * 4].copy_from_slice(&fd.to_ne_bytes());
    }
    let mut part = libc::iovec { iov_base: record.as_ptr() as *mut _, iov_len: record.len() };
    let mut header = empty_header(&mut part);
    if count > 0 {
        header.msg_control = ancillary.0.as_mut_ptr().cast();
        header.msg_controllen = used.next_multiple_of(8);
    }
    let at = &header as *const libc::msghdr as usize;
    let flags = libc::MSG_NOSIGNAL as usize;
    // SAFETY: header, part, record and ancillary are live, and sendmsg only reads them.
    check(unsafe { raw(Sysno::sendmsg as usize, [socket as usize, at, flags, 0, 0, 0]) })?;
    Ok(())
}

/// Receives one record into `record` and its descriptors; a cut record is EMSGSIZE, the
/// other side's end is ECONNRESET, silence beyond the timeout is EAGAIN.
pub fn receive(socket: RawFd, record: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let (length, fds) = receive_all(socket, record);
    Ok((length?, fds))
}

/// As `receive`, with the descriptors of a record that is none as well: where closing a foreign one may
/// wait for its owner, somebody else closes it.
pub fn receive_all(socket: RawFd, record: &mut [u8]) -> (Result<usize, Errno>, Vec<OwnedFd>) {
    let mut ancillary = Ancillary([0; 16 + FDS_MAX * 4]);
    let mut part = libc::iovec { iov_base: record.as_mut_ptr().cast(), iov_len: record.len() };
    let mut header = empty_header(&mut part);
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    header.msg_controllen = ancillary.0.len();
    let at = &mut header as *mut libc::msghdr as usize;
    let args = [socket as usize, at, libc::MSG_CMSG_CLOEXEC as usize, 0, 0, 0];
    let bytes = loop {
        // SAFETY: header, part, record and ancillary are live and exclusively ours.
        match check(unsafe { raw(Sysno::recvmsg as usize, args) }) {
            Err(Errno(libc::EINTR)) => continue,
            Err(errno) => return (Err(errno), Vec::new()),
            Ok(bytes) => break bytes,
        }
    };
    let fds = take_fds(&ancillary.0, header.msg_controllen);
    let is_cut = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    let length = match bytes {
        0 => Err(Errno(libc::ECONNRESET)),
        _ if is_cut => Err(Errno(libc::EMSGSIZE)),
        length => Ok(length),
    };
    (length, fds)
}

/// Receives one record and the one descriptor that comes with it, as recvmsg(2) does with `flags`; a
/// record of nothing is the other side's end. A descriptor for which the table has no room is gone.
pub fn receive_one(
    socket: RawFd,
    record: &mut [u8],
    flags: i32,
) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut ancillary = Ancillary([0; 16 + FDS_MAX * 4]);
    let mut part = libc::iovec { iov_base: record.as_mut_ptr().cast(), iov_len: record.len() };
    let mut header = empty_header(&mut part);
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    header.msg_controllen = ancillary.0.len();
    let at = &mut header as *mut libc::msghdr as usize;
    let args = [socket as usize, at, flags as usize, 0, 0, 0];
    // SAFETY: header, part, record and ancillary are live and exclusively ours.
    let bytes = check(unsafe { raw(Sysno::recvmsg as usize, args) })?;
    let fd = take_fds(&ancillary.0, header.msg_controllen).pop();
    if fd.is_none() && header.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(Errno(libc::EMFILE));
    }
    Ok((bytes, fd))
}

fn empty_header(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header
}

fn take_fds(ancillary: &[u8], length: usize) -> Vec<OwnedFd> {
    let word = |at: usize| {
        ancillary.get(at..at + 4).map_or(0, |b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
    };
    if length < 16 || word(8) != libc::SOL_SOCKET || word(12) != libc::SCM_RIGHTS {
        return Vec::new();
    }
    let used = (word(0) as usize).min(length).min(ancillary.len());
    let count = (used - 16) / 4;
    // SAFETY: the kernel has just installed these descriptors for this message; nobody else
    // knows their numbers.
    (0..count).map(|place| unsafe { OwnedFd::adopt(word(16 + place * 4)) }).collect()
}

/// Limits how long each later call on the socket waits; 0 for no limit.
pub fn set_timeouts(fd: RawFd, timeout_ms: u64) -> Result<(), Errno> {
    let value = libc::timeval {
        tv_sec: (timeout_ms / 1000) as i64,
        tv_usec: (timeout_ms % 1000) as i64 * 1000,
    };
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let at = &value as *const libc::timeval as usize;
        let args = [fd as usize, libc::SOL_SOCKET as usize, name as usize, at, 16, 0];
        // SAFETY: `value` is a live timeval of sixteen bytes.
        check(unsafe { raw(Sysno::setsockopt as usize, args) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connecting_to_nothing_is_an_error() {
        assert!(PacketSocket::connect("/nonexistent/socket", 100).is_err());
        let long = "x".repeat(200);
        assert_eq!(PacketSocket::connect(&long, 1).err(), Some(Errno(libc::ENAMETOOLONG)));
    }
}
