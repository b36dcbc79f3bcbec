//! Whether an address may be reached: granted itself, by its name, or because it is a name server.

use std::net::SocketAddr;

use heliostat_base::sys::Errno;
use heliostat_control::policy::destination;
use heliostat_control::policy::record::Ask;

use super::socket::Socket;
use crate::call::Call;

/// Where a connection goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// To the address that was judged.
    Straight(SocketAddr),
    /// To the supervisor's own forwarder of look-ups.
    Forwarder(SocketAddr),
}

/// Judges a destination. EACCES, as from a packet filter.
pub fn judge(call: &Call<'_>, socket: &Socket, named: SocketAddr) -> Result<Route, Errno> {
    let to = destination(named);
    let is_server = is_server(call, named, to);
    let looks_up = is_server && call.supervisor.lookups.are_any();
    // A traced program may reach the server too, but the names are what it asks for.
    if !(looks_up && call.supervisor.is_traced) && is_granted(call, to) {
        call.note_ask(Ask::Connect(to), true);
        return Ok(Route::Straight(to));
    }
    if looks_up {
        let own = call.supervisor.lookups.forwarder(socket.is_stream(), to.is_ipv6());
        return own.map(Route::Forwarder);
    }
    match is_server {
        true => call.note_look_ups(),
        false => call.note_ask(Ask::Connect(to), false),
    }
    Err(Errno(libc::EACCES))
}

/// Judges one datagram to a destination that the socket is not connected to, and says where it
/// goes. To a name server a question goes written anew, as from the forwarder: those bytes, if
/// they are others.
pub fn judge_datagram(
    call: &Call<'_>,
    named: SocketAddr,
    bytes: &[u8],
) -> Result<(SocketAddr, Option<Vec<u8>>), Errno> {
    let to = destination(named);
    if is_granted(call, to) {
        call.note_ask(Ask::Connect(to), true);
        return Ok((to, None));
    }
    if is_server(call, named, to) {
        let question =
            call.supervisor.lookups.granted_question(bytes).ok_or(Errno(libc::EACCES))?;
        return Ok((to, Some(question)));
    }
    call.note_ask(Ask::Connect(to), false);
    Err(Errno(libc::EACCES))
}

/// Whether a name server of this machine's is meant, as the program names it or as it is used.
fn is_server(call: &Call<'_>, named: SocketAddr, to: SocketAddr) -> bool {
    call.supervisor.lookups.is_server(named) || call.supervisor.lookups.is_server(to)
}

fn is_granted(call: &Call<'_>, to: SocketAddr) -> bool {
    let policy = &call.supervisor.policy;
    policy.may_connect(to)
        || policy.connect_names(to.port()).any(|name| call.supervisor.lookups.leads(name, to.ip()))
}
