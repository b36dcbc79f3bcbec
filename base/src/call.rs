//! Typed system calls on descriptors: raw instruction inside, safe arguments outside.
//!
//! Descriptor numbers are plain `i32`: the stub works on numbers that the program owns, and a
//! wrong one is the kernel's EBADF, never unsoundness.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::sys::{check, raw, Errno, Sysno};

/// Answer of a typed call.
pub type Answer = Result<usize, Errno>;

macro_rules! call {
    ($nr:ident $(, $arg:expr)*) => {{
        let given = [$($arg as usize),*];
        let mut args = [0usize; 6];
        args[..given.len()].copy_from_slice(&given);
        // SAFETY: every pointer passed by this module comes from a live reference with its true
        // length, and the calls used here keep none of them after they return.
        check(unsafe { raw(Sysno::$nr as usize, args) })
    }};
}

mod direct;
mod epoll;
mod flush;
mod moves;
mod names;
mod status;

pub use direct::{open_direct, reopen_direct};
pub use epoll::{epoll_create, epoll_ctl, epoll_events, epoll_wait, is_epoll, is_same_file};
pub use flush::{
    birth, file_system, flush, flush_folder, offset, path_of, reopen_for_reading, Birth,
};
pub use moves::{lseek, pread, recv_many, recv_pieces, send_many, send_pieces};
pub use names::rename_new;
pub use status::{identity, inode, is_regular_file, mode_and_bytes};

/// recv(2) into `buffer`.
pub fn recv(fd: i32, buffer: &mut [u8], flags: i32) -> Answer {
    call!(recvfrom, fd, buffer.as_mut_ptr(), buffer.len(), flags, 0, 0)
}

/// send(2) of `buffer`.
pub fn send(fd: i32, buffer: &[u8], flags: i32) -> Answer {
    call!(sendto, fd, buffer.as_ptr(), buffer.len(), flags, 0, 0)
}

/// readv(2).
pub fn readv(fd: i32, buffers: &mut [IoSliceMut<'_>]) -> Answer {
    call!(readv, fd, buffers.as_mut_ptr(), buffers.len().min(1024))
}

/// writev(2).
pub fn writev(fd: i32, buffers: &[IoSlice<'_>]) -> Answer {
    call!(writev, fd, buffers.as_ptr(), buffers.len().min(1024))
}

/// What poll(2) says of `fd` at once.
pub fn events_now(fd: i32, events: i16) -> i16 {
    let mut fds = [libc::pollfd { fd, events, revents: 0 }];
    let _ = poll(&mut fds, 0);
    fds[0].revents
}

/// close(2).
pub fn close(fd: i32) -> Answer {
    call!(close, fd)
}

/// shutdown(2); `how` is SHUT_RD, SHUT_WR or SHUT_RDWR.
pub fn shutdown(fd: i32, how: i32) -> Answer {
    call!(shutdown, fd, how)
}

/// fcntl(2) with an integer argument.
pub fn fcntl(fd: i32, command: i32, argument: usize) -> Answer {
    call!(fcntl, fd, command, argument)
}

/// True when somebody, this process perhaps, has a record lock on the file (fcntl(2), F_SETLK).
pub fn is_record_locked(fd: i32) -> bool {
    // Asked as the owner of an open file description, to whom this process's own locks are another's.
    let mut wanted = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    let asked = fcntl(fd, libc::F_OFD_GETLK, &raw mut wanted as usize);
    asked.is_ok() && wanted.l_type != libc::F_UNLCK as i16
}

/// rt_sigprocmask(2) of this thread: the mask before. `None` changes nothing.
pub fn signal_mask(how: i32, mask: Option<u64>) -> u64 {
    let mut before = 0u64;
    let new_at = mask.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let _ = call!(rt_sigprocmask, how, new_at, &mut before as *mut u64, 8);
    before
}

/// rt_sigpending(2): signals that wait for this thread, or for any of the process.
pub fn pending_signals() -> u64 {
    let mut pending = 0u64;
    let _ = call!(rt_sigpending, &mut pending as *mut u64, 8);
    pending
}

/// True when the open file description is in non-blocking mode.
pub fn is_nonblocking(fd: i32) -> bool {
    fcntl(fd, libc::F_GETFL, 0).is_ok_and(|flags| flags as i32 & libc::O_NONBLOCK != 0)
}

/// poll(2) with a limit in milliseconds, -1 for none.
pub fn poll(fds: &mut [libc::pollfd], timeout_ms: i32) -> Answer {
    call!(poll, fds.as_mut_ptr(), fds.len(), timeout_ms)
}

/// ppoll(2): like poll with a finer limit and a signal mask for its duration.
pub fn ppoll(fds: &mut [libc::pollfd], timeout_ns: Option<u64>, mask: Option<u64>) -> Answer {
    let spec = timeout_ns.map(timespec);
    let spec_at = spec.as_ref().map_or(std::ptr::null(), |s| s as *const libc::timespec);
    let mask_at = mask.as_ref().map_or(std::ptr::null(), |m| m as *const u64);
    call!(ppoll, fds.as_mut_ptr(), fds.len(), spec_at, mask_at, 8)
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// setsockopt(2) with an `int` value.
pub fn set_option(fd: i32, level: i32, name: i32, value: i32) -> Answer {
    call!(setsockopt, fd, level, name, &value as *const i32, 4)
}

/// getsockopt(2) of an `int` value.
pub fn option(fd: i32, level: i32, name: i32) -> Result<i32, Errno> {
    let (mut value, mut length) = (0i32, 4u32);
    call!(getsockopt, fd, level, name, &mut value as *mut i32, &mut length as *mut u32)?;
    Ok(value)
}

/// Sends a reset instead of a FIN when the socket is closed next.
pub fn linger_zero(fd: i32) -> Answer {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    call!(setsockopt, fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger as *const _, 8)
}

/// Closes at once and sends in the background, whatever the socket was told before.
pub fn linger_off(fd: i32) -> Answer {
    let linger = libc::linger { l_onoff: 0, l_linger: 0 };
    call!(setsockopt, fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger as *const _, 8)
}

/// True for a socket whose close sends a reset instead of a FIN.
pub fn is_linger_zero(fd: i32) -> bool {
    let mut linger = libc::linger { l_onoff: 0, l_linger: 0 };
    let (at, mut length) = (&mut linger as *mut libc::linger, 8u32);
    call!(getsockopt, fd, libc::SOL_SOCKET, libc::SO_LINGER, at, &mut length as *mut u32).is_ok()
        && linger.l_onoff != 0
        && linger.l_linger == 0
}

/// A socket's receive or send timeout (`SO_RCVTIMEO`, `SO_SNDTIMEO`) in ns; `None` for none.
pub fn socket_timeout(fd: i32, name: i32) -> Option<u64> {
    let mut value = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut length = 16u32;
    let at = &mut value as *mut libc::timeval;
    call!(getsockopt, fd, libc::SOL_SOCKET, name, at, &mut length as *mut u32).ok()?;
    let ns = value.tv_sec as u64 * 1_000_000_000 + value.tv_usec as u64 * 1000;
    (ns != 0).then_some(ns)
}

/// Address storage of a socket call, as the kernel fills it.
#[derive(Clone, Copy)]
pub struct RawAddress {
    /// The bytes of a sockaddr.
    pub bytes: [u8; 128],
    /// How many of them the kernel meant.
    pub length: u32,
}

impl RawAddress {
    /// Room for any address.
    pub const fn empty() -> Self {
        Self { bytes: [0; 128], length: 128 }
    }

    /// The IPv4 or IPv6 address in it.
    pub fn parse(&self) -> Option<SocketAddr> {
        parse_address(&self.bytes[..(self.length as usize).min(128)])
    }
}

/// The IPv4 or IPv6 address in the bytes of a sockaddr (source: ip(7), ipv6(7)).
pub fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]);
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    if i32::from(family) == libc::AF_INET {
        let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
        return Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(ip), port)));
    }
    if i32::from(family) == libc::AF_INET6 {
        let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
        return Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, 0)));
    }
    None
}

/// accept4(2), always with the peer's address.
pub fn accept(fd: i32, flags: i32, peer: &mut RawAddress) -> Answer {
    peer.length = 128;
    let length_at = &mut peer.length as *mut u32;
    call!(accept4, fd, peer.bytes.as_mut_ptr(), length_at, flags)
}

/// getsockname(2).
pub fn local_address(fd: i32) -> Option<SocketAddr> {
    let mut address = RawAddress::empty();
    let length_at = &mut address.length as *mut u32;
    call!(getsockname, fd, address.bytes.as_mut_ptr(), length_at).ok()?;
    address.parse()
}

/// getpeername(2).
pub fn peer_address(fd: i32) -> Option<SocketAddr> {
    let mut address = RawAddress::empty();
    let length_at = &mut address.length as *mut u32;
    call!(getpeername, fd, address.bytes.as_mut_ptr(), length_at).ok()?;
    address.parse()
}

/// Bytes of storage that the open file takes: for a memfd, of memory.
pub fn bytes_allocated(fd: i32) -> Option<u64> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    call!(fstat, fd, &mut stat as *mut libc::stat).ok()?;
    // Blocks of 512 bytes whatever the file system (source: stat(3type)).
    Some(stat.st_blocks as u64 * 512)
}

/// Bytes that could be read now from a pipe or socket (FIONREAD).
pub fn bytes_queued(fd: i32) -> Answer {
    let mut count = 0i32;
    call!(ioctl, fd, libc::FIONREAD, &mut count as *mut i32)?;
    Ok(count.max(0) as usize)
}

/// Bytes that TCP holds and has not sent yet (SIOCOUTQNSD; source: linux/sockios.h).
pub fn bytes_unsent(fd: i32) -> Answer {
    const SIOCOUTQNSD: i32 = 0x894b;
    let mut count = 0i32;
    call!(ioctl, fd, SIOCOUTQNSD, &mut count as *mut i32)?;
    Ok(count.max(0) as usize)
}

/// Bytes that could be read now from a TCP connection, 0 at its end, with the errors of recv(2): no
/// byte is copied or taken (MSG_TRUNC; source: tcp(7)).
pub fn bytes_readable(fd: i32) -> Answer {
    const ALL: usize = 1 << 30;
    let flags = libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    call!(recvfrom, fd, std::ptr::null_mut::<u8>(), ALL, flags, 0, 0)
}

/// getrandom(2).
pub fn random(bytes: &mut [u8]) -> Answer {
    call!(getrandom, bytes.as_mut_ptr(), bytes.len(), 0)
}

/// Ends a TCP connection with a reset: the peer sees ECONNRESET, and what was received and not
/// read is gone (source: connect(2), AF_UNSPEC).
pub fn reset(fd: i32) {
    let nowhere = [0u8; 16];
    let _ = call!(connect, fd, nowhere.as_ptr(), nowhere.len());
}

/// A connected pair of local stream sockets, closed on exec.
pub fn local_pair() -> Result<(i32, i32), Errno> {
    let mut pair = [0i32; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    call!(socketpair, libc::AF_UNIX, kind, 0, pair.as_mut_ptr())?;
    Ok((pair[0], pair[1]))
}

/// Puts `new` in the place of `fd`, which keeps its close-on-exec and non-blocking modes, and
/// closes `new`'s own number.
pub fn replace(new: i32, fd: i32) -> Result<(), Errno> {
    let is_kept = fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & 1 == 0);
    let status = fcntl(fd, libc::F_GETFL, 0).unwrap_or(0);
    let _ = fcntl(new, libc::F_SETFL, status & libc::O_NONBLOCK as usize);
    let answer = call!(dup3, new, fd, if is_kept { 0 } else { libc::O_CLOEXEC });
    let _ = close(new);
    answer.map(|_| ())
}

/// Closes every descriptor of this process but those in `kept`, which it sorts.
pub fn keep_only(kept: &mut [i32]) {
    kept.sort_unstable();
    let mut first = 0;
    for fd in kept.iter().copied().chain([i32::MAX]) {
        if fd > first {
            let _ = call!(close_range, first, fd - 1, 0);
        }
        first = fd.saturating_add(1);
    }
}

/// True when `ip` is an address of this network namespace: a datagram socket can be bound to it.
pub fn is_local_ip(ip: std::net::IpAddr) -> bool {
    if ip.is_loopback() {
        return true;
    }
    std::net::UdpSocket::bind((ip, 0)).is_ok()
}

/// pread(2) into a place given by pointer.
///
/// # Safety
/// `length` writable bytes lie at `at`.
pub unsafe fn pread_raw(fd: i32, at: *mut u8, length: usize, offset: Option<u64>) -> Answer {
    match offset {
        Some(offset) => call!(pread64, fd, at, length, offset),
        None => call!(read, fd, at, length),
    }
}

/// tgkill(2): sends `signal` to thread `tid` of this process.
pub fn signal_thread(pid: i32, tid: i32, signal: i32) -> Answer {
    call!(tgkill, pid, tid, signal)
}

/// Unblocks the signals in `mask` for this thread (bit 0 is signal 1); pending ones arrive now.
pub fn unblock_signals(mask: u64) {
    let none = std::ptr::null::<u64>();
    let _ = call!(rt_sigprocmask, libc::SIG_UNBLOCK, &mask as *const u64, none, 8);
}

/// Major and minor version of the kernel; zeros where it does not say.
pub fn kernel_version() -> (u32, u32) {
    let mut name = std::mem::MaybeUninit::<libc::utsname>::zeroed();
    let _ = call!(uname, name.as_mut_ptr());
    // SAFETY: arrays of bytes, zero until the kernel has written them.
    let release = unsafe { name.assume_init() }.release;
    let mut numbers = release.split(|byte| !(*byte as u8).is_ascii_digit()).map(|digits| {
        digits.iter().take(4).fold(0, |value, digit| value * 10 + (*digit as u8 - b'0') as u32)
    });
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// True when the thread exists (signal 0).
pub fn thread_exists(tid: i32) -> bool {
    call!(tkill, tid, 0) != Err(Errno(libc::ESRCH))
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
