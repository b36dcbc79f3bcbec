//! What is asked of the kernel for one connection.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};

use rustix::io::Errno;
use rustix::net::{connect, socket_with, sockopt, AddressFamily, SocketFlags, SocketType};

/// Begins a connection, which is made or has failed when the socket is writable.
pub fn begin_connect(to: SocketAddr) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno.into()),
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(TcpStream::from(socket))
}

/// Makes an accepted connection one that never waits, in the kernel or for more bytes.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)
}

/// How the connection that was begun came out.
pub fn connected(stream: &TcpStream) -> Result<(), i32> {
    match sockopt::socket_error(stream) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(errno)) | Err(errno) => Err(errno.raw_os_error()),
    }
}

/// Whether an error of `accept` is of the connection that was about to be taken: the next may be well.
pub fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
