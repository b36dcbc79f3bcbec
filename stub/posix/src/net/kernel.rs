//! What the kernel is asked of sockets and addresses that no table knows.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

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

/// Addresses whose answer is kept, each at one place: a server's peers may be many.
const KNOWN_ADDRESSES: usize = 1024;

/// Asked of the kernel, and kept until another address takes the place.
fn is_local(address: NetAddress) -> bool {
    static KNOWN: Lock<Vec<Option<(IpAddr, bool)>>> = Lock::new(Vec::new());
    let mut hasher = DefaultHasher::new();
    address.ip.hash(&mut hasher);
    let place = hasher.finish() as usize % KNOWN_ADDRESSES;
    // In the child of a fork another thread may hold it for ever.
    let Some(mut known) = KNOWN.try_lock() else { return call::is_local_ip(address.ip) };
    known.resize(KNOWN_ADDRESSES, None);
    match known[place] {
        Some((ip, local)) if ip == address.ip => local,
        _ => {
            let local = call::is_local_ip(address.ip);
            known[place] = Some((address.ip, local));
            local
        }
    }
}
