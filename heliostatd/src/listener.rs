//! The listening control socket: made here, or handed over by a service manager.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use heliostat_base::fd::duplicate;
use rustix::fs::Mode;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that wait to be accepted. The kernel cuts it to net.core.somaxconn.
const BACKLOG: i32 = 4096;
/// First descriptor that a service manager hands over (sd_listen_fds(3)).
const HANDED_OVER: i32 = 3;

/// Makes the socket file; one that a dead daemon left is removed. The caller holds the lock, so
/// whatever lies there belongs to nobody.
pub fn bind(path: &Path, open_to_all: bool) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = net::bind(&socket, &SocketAddrUnix::new(path)?);
    rustix::process::umask(before);
    bound?;
    if open_to_all {
        // Root's daemon serves every user; the rules decide what each may do.
        rustix::fs::chmod(path, Mode::from_raw_mode(0o666))?;
    }
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The socket that a service manager opened for this process, if it did (sd_listen_fds(3)).
pub fn handed_over() -> io::Result<Option<OwnedFd>> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) || number("LISTEN_FDS") != Some(1) {
        return Ok(None);
    }
    let copy = duplicate(HANDED_OVER).map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
    let socket = OwnedFd::from(copy);
    let is_right = net::sockopt::socket_type(&socket) == Ok(SocketType::SEQPACKET)
        && net::sockopt::socket_acceptconn(&socket) == Ok(true);
    if !is_right {
        let message = "the socket handed over is not a listening SEQPACKET socket; \
                       the socket unit needs ListenSequentialPacket=";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(Some(socket))
}
