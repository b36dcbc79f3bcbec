//! The accepting side of a SEQPACKET socket, one record and its descriptors at a time.

use std::os::fd::{AsRawFd, RawFd};

use heliostat_abi::session::record::REQUEST_BYTES;
use heliostat_base::fd::OwnedFd;

const CONTROL_BYTES: usize = 256;

/// Room for control data, aligned as cmsg(3) asks.
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// A listening socket at `path`.
pub fn listen(path: &str) -> OwnedFd {
    let _ = std::fs::remove_file(path);
    // SAFETY: plain socket calls on a fresh descriptor and a live, zero-ended address.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        for (place, byte) in path.bytes().enumerate() {
            address.sun_path[place] = byte as libc::c_char;
        }
        let length = std::mem::size_of::<libc::sockaddr_un>() as u32;
        assert_eq!(libc::bind(fd, (&raw const address).cast(), length), 0);
        assert_eq!(libc::listen(fd, 64), 0);
        OwnedFd::adopt(fd)
    }
}

/// The next session.
pub fn accept(listener: &OwnedFd) -> OwnedFd {
    loop {
        // SAFETY: accept without an address; the fresh descriptor is ours.
        let fd = unsafe {
            libc::accept(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut())
        };
        if fd >= 0 {
            // SAFETY: just opened, nobody else knows it.
            return unsafe { OwnedFd::adopt(fd) };
        }
    }
}

fn header(part: &mut libc::iovec, control: &mut Control, used: usize) -> libc::msghdr {
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (part, 1);
    (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), used);
    header
}

/// One request and its descriptors; `None` when the session has ended.
pub fn receive(fd: RawFd) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    let mut record = vec![0u8; REQUEST_BYTES + 1];
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: record.as_mut_ptr().cast(), iov_len: record.len() };
    let mut header = header(&mut part, &mut control, CONTROL_BYTES);
    // SAFETY: everything the header names lives until the call is over.
    let count = unsafe { libc::recvmsg(fd, &mut header, libc::MSG_CMSG_CLOEXEC) };
    if count <= 0 {
        return None;
    }
    record.truncate(count as usize);
    let word = |at: usize| i32::from_ne_bytes(control.0[at..at + 4].try_into().unwrap());
    let fds = if header.msg_controllen >= 20 { (word(0) as usize - 16) / 4 } else { 0 };
    // SAFETY: the kernel has just opened these for this message.
    let fds = (0..fds).map(|place| unsafe { OwnedFd::adopt(word(16 + place * 4)) }).collect();
    Some((record, fds))
}

/// Sends a reply with descriptors; a session that has gone is no error here.
pub fn send(fd: RawFd, record: &[u8], fds: &[RawFd]) {
    let mut control = Control([0; CONTROL_BYTES]);
    let used = 16 + fds.len() * 4;
    control.0[..8].copy_from_slice(&used.to_ne_bytes());
    control.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    control.0[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
    for (place, fd) in fds.iter().enumerate() {
        control.0[16 + place * 4..20 + place * 4].copy_from_slice(&fd.to_ne_bytes());
    }
    let mut part = libc::iovec { iov_base: record.as_ptr() as *mut _, iov_len: record.len() };
    let given = if fds.is_empty() { 0 } else { used.next_multiple_of(8) };
    let header = header(&mut part, &mut control, given);
    // SAFETY: everything the header names lives until the call is over; it is only read.
    unsafe { libc::sendmsg(fd, &header, libc::MSG_NOSIGNAL) };
}
