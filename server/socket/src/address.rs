//! Addresses between the kernel's form and the records'.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use heliostat_abi::file::delegated::Piece;
use heliostat_abi::name::NetAddress;
use heliostat_abi::socket::operation::{decode_address, encode_address, ADDRESS_BYTES};
use heliostat_base::mapping::SharedMapping;
use rustix::net::SocketAddrAny;

/// The kernel's word for an address.
pub(crate) fn from_any(address: SocketAddrAny) -> Option<NetAddress> {
    SocketAddr::try_from(address).ok().map(NetAddress::new)
}

/// An address as the kernel takes it.
pub(crate) fn socket_address(address: NetAddress) -> SocketAddr {
    SocketAddr::new(address.ip, address.port)
}

/// The address that is judged, and connected to, for one that a session names: "no address" is this
/// machine's loopback, as the kernel has it (source: net/ipv4/route.c, net/ipv6/tcp_ipv6.c).
pub(crate) fn destination(to: NetAddress) -> NetAddress {
    let ip = match to.ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    NetAddress { ip, ..to }
}

/// Where a socket's own end is.
pub(crate) fn own_of(socket: impl AsFd) -> Option<NetAddress> {
    rustix::net::getsockname(socket).ok().and_then(from_any)
}

/// Where its other end is.
pub(crate) fn peer_of(socket: impl AsFd) -> Option<NetAddress> {
    rustix::net::getpeername(socket).ok().flatten().and_then(from_any)
}

/// The address in a piece of a window; the bytes are foreign, and copied once.
pub(crate) fn take(window: &SharedMapping, piece: &Piece) -> Option<NetAddress> {
    let mut bytes = [0; ADDRESS_BYTES];
    window.copy_out(usize::try_from(piece.offset).ok()?, &mut bytes).ok()?;
    decode_address(&bytes)
}

/// Puts an address into a piece. The piece was checked against the window when the operation came.
pub(crate) fn put(window: &SharedMapping, piece: &Piece, address: NetAddress) {
    let at = usize::try_from(piece.offset).unwrap_or(usize::MAX);
    let _ = window.copy_in(at, &encode_address(address));
}
