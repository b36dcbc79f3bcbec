//! connect(2).

use std::net::{Ipv4Addr, SocketAddr};

use heliostat_base::sys::Errno;
use rustix::net::{AddressFamily, SocketType};

use super::address::{self, Address};
use super::reach::{self, Route};
use super::socket::Socket;
use super::unix;
use crate::acting::as_supervisor;
use crate::call::{Answer, Call, DONE};
use crate::errno::errno;

/// connect(2): the address is judged, and the supervisor's copy of the socket connected.
pub fn connect(call: &Call<'_>) -> Answer {
    let socket = Socket::of(call, call.int(0), libc::EISCONN)?;
    let done = to(call, &socket);
    if let Some(made) = call.supervisor.made.as_ref().filter(|_| socket.is_connection()) {
        match done {
            Ok(_) => made.let_go(&socket.fd),
            Err(Errno(libc::EINPROGRESS | libc::EINTR)) => made.connects(&socket.fd),
            Err(_) => {}
        }
    }
    done
}

fn to(call: &Call<'_>, socket: &Socket) -> Answer {
    match address::read(call, call.word(1), call.word(2))? {
        Address::None => {
            call.check()?;
            rustix::net::connect_unspec(&socket.fd).map_err(errno)?;
        }
        Address::Inet(to) => {
            let route = reach::judge(call, socket, to)?;
            call.check()?;
            connect_inet(call, socket, route)?;
        }
        Address::Path(path) if call.supervisor.control.is_at(&path) => {
            return to_control_plane(call, socket);
        }
        Address::Path(path) => {
            let (_held, name) = unix::destination(call, &path)?;
            socket.connect(call, |fd| rustix::net::connect(fd, &name))?;
        }
        Address::Abstract => {
            call.note_call("abstract names of unix sockets");
            return Err(Errno(libc::ECONNREFUSED));
        }
        Address::Unnamed => return Err(Errno(libc::EINVAL)),
    }
    DONE
}

/// Puts a restricted connection in the place of the program's socket, which is not connected at all.
fn to_control_plane(call: &Call<'_>, socket: &Socket) -> Answer {
    if socket.family != AddressFamily::UNIX || socket.kind != SocketType::SEQPACKET {
        return Err(Errno(libc::EPROTOTYPE));
    }
    // The program's as a whole, whoever one of its processes has become.
    let process = call.process();
    let connection = as_supervisor(|| call.supervisor.control.connect(process))?;
    call.check()?;
    let listener = &call.supervisor.listener;
    listener.replace(call.notice.id, connection.socket().fd(), call.int(0), true)?;
    DONE
}

fn connect_inet(call: &Call<'_>, socket: &Socket, route: Route) -> Result<(), Errno> {
    match route {
        Route::Straight(to) => socket.connect(call, |fd| rustix::net::connect(fd, &to)),
        Route::Forwarder(to) => {
            if socket.is_stream() {
                // The forwarder turns away whom it does not know, so this one has an address first.
                // Where the program has chosen one itself, that holds.
                let _ = rustix::net::bind(&socket.fd, &SocketAddr::new(to.ip(), 0));
                admit(call, socket);
            }
            let done = socket.connect(call, |fd| rustix::net::connect(fd, &to));
            // Known before the program can send: it is answered after this.
            admit(call, socket);
            done
        }
    }
}

/// Lets the forwarder hear a socket; one for any address has this machine's.
fn admit(call: &Call<'_>, socket: &Socket) {
    let Ok(own) = rustix::net::getsockname(&socket.fd) else { return };
    let Ok(mut own) = SocketAddr::try_from(own) else { return };
    if own.ip().to_canonical().is_unspecified() {
        own.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    call.supervisor.lookups.admit(own);
}
