//! bind(2) and listen(2).

use std::net::SocketAddr;

use heliostat_base::sys::Errno;
use heliostat_control::policy::record::Ask;
use rustix::net::AddressFamily;

use super::address::{self, Address};
use super::kept;
use super::socket::Socket;
use super::unix;
use crate::call::{Answer, Call, DONE};
use crate::errno::errno;

/// bind(2). A port that the kernel chooses is always had, as connecting would give one, but
/// listening there is judged by itself.
pub fn bind(call: &Call<'_>) -> Answer {
    // What is not kept is bound or connected.
    let socket = Socket::of(call, call.int(0), libc::EINVAL)?;
    match address::read(call, call.word(1), call.word(2))? {
        Address::Inet(at) => {
            if !may_bind(call, &socket, at) {
                call.note_ask(Ask::Listen(at), false);
                return Err(Errno(libc::EACCES));
            }
            if at.port() != 0 && !socket.is_stream() {
                call.note_ask(Ask::Listen(at), true);
            }
            call.check()?;
            bind_inet(call, &socket, at)?;
        }
        Address::Path(path) => unix::bind(call, &socket, &path)?,
        // Without a name the kernel chooses an abstract one.
        Address::Unnamed | Address::Abstract => {
            call.note_call("abstract names of unix sockets");
            return Err(Errno(libc::EACCES));
        }
        Address::None => return Err(Errno(libc::EAFNOSUPPORT)),
    }
    DONE
}

/// What the program has closed may still be kept, and holds its port.
fn bind_inet(call: &Call<'_>, socket: &Socket, at: SocketAddr) -> Result<(), Errno> {
    let bind = || rustix::net::bind(&socket.fd, &at).map_err(errno);
    match (bind(), &call.supervisor.made) {
        (Err(Errno(libc::EADDRINUSE)), Some(made))
            if kept::let_go_closed(call.supervisor, made) =>
        {
            bind()
        }
        (done, _) => done,
    }
}

/// A datagram socket at any port hears everybody, so that somebody must be granted.
fn may_bind(call: &Call<'_>, socket: &Socket, at: SocketAddr) -> bool {
    let policy = &call.supervisor.policy;
    let anybody = !policy.connect.is_empty() || !policy.listen.is_empty();
    let chosen =
        at.port() == 0 && (socket.is_stream() || anybody || call.supervisor.lookups.are_any());
    chosen || policy.may_listen(at)
}

/// listen(2). A socket that has no address yet gets one of all addresses and any port.
pub fn listen(call: &Call<'_>) -> Answer {
    let made = call.supervisor.made.as_ref();
    let socket = match Socket::of(call, call.int(0), libc::EINVAL) {
        Err(Errno(libc::EINVAL))
            if made.is_some_and(|made| kept::has_listener(call, made, call.int(0))) =>
        {
            return DONE;
        }
        other => other?,
    };
    if socket.family != AddressFamily::UNIX {
        let at = rustix::net::getsockname(&socket.fd).map_err(errno)?;
        let at = SocketAddr::try_from(at).map_err(errno)?;
        let policy = &call.supervisor.policy;
        // A port that was not granted to bind(2) can only be one that the kernel chose.
        let granted = policy.may_listen(at) || policy.may_listen(SocketAddr::new(at.ip(), 0));
        let asked = if policy.may_listen(at) { at } else { SocketAddr::new(at.ip(), 0) };
        call.note_ask(Ask::Listen(asked), granted);
        if !granted {
            return Err(Errno(libc::EACCES));
        }
    }
    call.check()?;
    rustix::net::listen(&socket.fd, call.int(1)).map_err(errno)?;
    if let Some(made) = made {
        made.listens(&socket.fd);
    }
    DONE
}
