//! What the kernel is asked of sockets and addresses that no table knows.

use heliostat_abi::name::NetAddress;
use heliostat_base::call;
use heliostat_base::lock::Lock;

/// True for a stream socket of TCP over IPv4 or IPv6.
pub fn is_tcp(fd: i32) -> bool {
    call::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP)
}

/// True for such a socket that listens.
pub fn is_listening(fd: i32) -> bool {
    call::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Ok(1) && is_tcp(fd)
}

/// Whether an address is one of this machine's.
pub fn is_on_this_node(address: NetAddress) -> bool {
    address.is_loopback() || is_local(address)
}

/// Own addresses are asked of the kernel once each.
fn is_local(address: NetAddress) -> bool {
    static KNOWN: Lock<Vec<(std::net::IpAddr, bool)>> = Lock::new(Vec::new());
    let mut known = KNOWN.lock();
    if let Some((_, local)) = known.iter().find(|(ip, _)| *ip == address.ip) {
        return *local;
    }
    let local = call::is_local_ip(address.ip);
    if known.len() < 64 {
        known.push((address.ip, local));
    }
    local
}
