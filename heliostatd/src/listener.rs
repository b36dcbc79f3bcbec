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
    // The file that bind makes has the mode of the socket, less the umask (Linux: `unix_bind`). The
    // umask itself is shared by all threads of the process, so it is left as it is.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_its_owners_alone_from_the_start_unless_it_is_open_to_all() {
        let folder = std::env::temp_dir().join(format!("heliostat-bind-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        for (open_to_all, expected) in [(false, 0o600), (true, 0o666)] {
            let _socket = bind(&path, open_to_all).unwrap();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, expected);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
