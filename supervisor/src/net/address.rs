//! A `sockaddr` from foreign bytes: copied once, read once.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use heliostat_backend_seal as seal;
use heliostat_base::sys::Errno;

use crate::call::Call;

/// Longest address (source: sockaddr_storage, socket.h).
const BYTES_MAX: usize = 128;
/// `sockaddr_in`, and `sockaddr_in6` without and with its scope (source: linux/in6.h).
const V4_BYTES: usize = 16;
const V6_BYTES_MIN: usize = 24;
const V6_BYTES: usize = 28;

/// Where a call leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// AF_UNSPEC: no address.
    None,
    /// IPv4 or IPv6.
    Inet(SocketAddr),
    /// A unix socket's path, without the NUL after it.
    Path(Vec<u8>),
    /// A unix socket's name that is no path.
    Abstract,
    /// A unix socket without a name.
    Unnamed,
}

/// The address of `length` bytes at `at` in the caller's memory. EFAULT, EINVAL, EAFNOSUPPORT.
pub fn read(call: &Call<'_>, at: u64, length: u64) -> Result<Address, Errno> {
    let length = usize::try_from(length as u32).unwrap_or(usize::MAX);
    if length > BYTES_MAX {
        return Err(Errno(libc::EINVAL));
    }
    let mut bytes = [0; BYTES_MAX];
    let bytes = &mut bytes[..length];
    seal::read_memory(call.thread(), at, bytes)?;
    parse(bytes)
}

pub fn parse(bytes: &[u8]) -> Result<Address, Errno> {
    let invalid = Errno(libc::EINVAL);
    let family = bytes.first_chunk().map(|two| u16::from_ne_bytes(*two)).ok_or(invalid)?;
    match i32::from(family) {
        libc::AF_UNSPEC => Ok(Address::None),
        libc::AF_INET => v4(bytes).ok_or(invalid),
        libc::AF_INET6 => v6(bytes).ok_or(invalid),
        libc::AF_UNIX => Ok(local(&bytes[2..])),
        // As for IPv4, whose sockets ask for the length first.
        _ if bytes.len() < V4_BYTES => Err(invalid),
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

fn v4(bytes: &[u8]) -> Option<Address> {
    let whole: &[u8; V4_BYTES] = bytes.first_chunk()?;
    let [_, _, port @ .., a, b, c, d] = whole.first_chunk::<8>()?;
    let address = SocketAddrV4::new(Ipv4Addr::new(*a, *b, *c, *d), u16::from_be_bytes(*port));
    Some(Address::Inet(SocketAddr::V4(address)))
}

fn v6(bytes: &[u8]) -> Option<Address> {
    let whole: &[u8; V6_BYTES_MIN] = bytes.first_chunk()?;
    let port = u16::from_be_bytes([whole[2], whole[3]]);
    let flow = u32::from_ne_bytes(*whole[4..].first_chunk()?);
    let ip: &[u8; 16] = whole[8..].first_chunk()?;
    let scope = match bytes.get(V6_BYTES_MIN..V6_BYTES).and_then(|rest| rest.first_chunk()) {
        Some(scope) => u32::from_ne_bytes(*scope),
        None => 0,
    };
    Some(Address::Inet(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(*ip), port, flow, scope))))
}

/// A path ends at its first NUL; a name that begins with one is abstract (unix(7)).
fn local(name: &[u8]) -> Address {
    match name.first() {
        None => Address::Unnamed,
        Some(0) => Address::Abstract,
        Some(_) => Address::Path(name.split(|byte| *byte == 0).next().unwrap_or(name).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(name: &[u8]) -> Result<Address, Errno> {
        parse(&[&(libc::AF_UNIX as u16).to_ne_bytes(), name].concat())
    }

    #[test]
    fn families_are_read_as_the_kernel_reads_them() {
        let mut v4 = vec![2, 0, 0x1f, 0x90, 127, 0, 0, 1];
        assert_eq!(parse(&v4), Err(Errno(libc::EINVAL)));
        v4.resize(16, 0);
        assert_eq!(parse(&v4), Ok(Address::Inet("127.0.0.1:8080".parse().unwrap())));
        let mut v6 = vec![10, 0, 0, 80, 0, 0, 0, 0];
        v6.extend(Ipv6Addr::LOCALHOST.octets());
        assert_eq!(parse(&v6), Ok(Address::Inet("[::1]:80".parse().unwrap())));
        v6.extend([7, 0, 0, 0]);
        assert_eq!(parse(&v6), Ok(Address::Inet("[::1%7]:80".parse().unwrap())));
        assert_eq!(parse(&[0, 0]), Ok(Address::None));
        let mut other = vec![16; 15];
        assert_eq!(parse(&other), Err(Errno(libc::EINVAL)));
        other.push(0);
        assert_eq!(parse(&other), Err(Errno(libc::EAFNOSUPPORT)));
        assert_eq!(parse(&[2]), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn names_of_unix_sockets_are_paths_abstract_or_none() {
        assert_eq!(unix(b"/a\0b"), Ok(Address::Path(b"/a".to_vec())));
        assert_eq!(unix(b"a"), Ok(Address::Path(b"a".to_vec())));
        assert_eq!(unix(b"\0a"), Ok(Address::Abstract));
        assert_eq!(unix(b""), Ok(Address::Unnamed));
    }
}
