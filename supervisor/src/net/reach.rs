//! Whether an address may be reached: granted itself, by its name, or because it is a name server.

use std::net::SocketAddr;

use heliostat_base::sys::Errno;
use heliostat_control::policy::record::Ask;

use super::socket::Socket;
use crate::call::Call;

/// Where a connection goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Where the program wants.
    Straight(SocketAddr),
    /// To the supervisor's own forwarder of look-ups.
    Forwarder(SocketAddr),
}

/// Judges a destination. EACCES, as from a packet filter.
pub fn judge(call: &Call<'_>, socket: &Socket, to: SocketAddr) -> Result<Way, Errno> {
    let is_server = call.house.lookups.is_server(to) && call.house.lookups.are_any();
    // A traced program may reach the server too, but the names are what it asks for.
    if !(is_server && call.house.is_traced) && is_granted(call, to) {
        call.house.note_ask(call, Ask::Connect(to), true);
        return Ok(Way::Straight(to));
    }
    if is_server {
        let own = call.house.lookups.forwarder(socket.is_stream(), to.is_ipv6());
        return own.map(Way::Forwarder);
    }
    call.house.note_ask(call, Ask::Connect(to), false);
    Err(Errno(libc::EACCES))
}

/// Judges one datagram to a destination that the socket is not connected to. To a name server a
/// question goes written anew, as from the forwarder: those bytes, if they are others.
pub fn judge_datagram(
    call: &Call<'_>,
    to: SocketAddr,
    bytes: &[u8],
) -> Result<Option<Vec<u8>>, Errno> {
    if is_granted(call, to) {
        call.house.note_ask(call, Ask::Connect(to), true);
        return Ok(None);
    }
    if call.house.lookups.is_server(to) {
        return call.house.lookups.granted_question(bytes).map(Some).ok_or(Errno(libc::EACCES));
    }
    call.house.note_ask(call, Ask::Connect(to), false);
    Err(Errno(libc::EACCES))
}

fn is_granted(call: &Call<'_>, to: SocketAddr) -> bool {
    let policy = &call.house.policy;
    policy.may_connect(to)
        || policy.connect_names(to.port()).any(|name| call.house.lookups.leads(name, to.ip()))
}
