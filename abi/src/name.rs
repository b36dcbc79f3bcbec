//! Names and object identities: what is asked for and what is answered.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::wire::{Reader, WireError, Writer};

/// An object that outlives a restart of its owner: a table index and the index's generation.
/// Ordered by index, so that services that walk a set of them give equal effects for equal inputs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct ObjectId {
    /// Place in the owner's table.
    pub index: u32,
    /// How often that place was given out; a stale id never matches again.
    pub generation: u32,
}

impl ObjectId {
    pub(crate) fn encode(self, w: &mut Writer<'_>) {
        w.u32(self.index).u32(self.generation);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Self {
        Self { index: r.u32(), generation: r.u32() }
    }

    /// An object whose word a stub will look up in the node page: there is none beyond its table.
    pub(crate) fn decode_listed(
        r: &mut Reader<'_>,
        name: &'static str,
        limit: usize,
    ) -> Result<Self, WireError> {
        let id = Self::decode(r);
        if id.index as usize >= limit {
            return Err(WireError::Field { name, found: u64::from(id.index) });
        }
        Ok(id)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

/// A TCP address in the form both planes compare: IPv4-mapped IPv6 becomes IPv4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct NetAddress {
    /// Address, canonical.
    pub ip: IpAddr,
    /// Port in host order.
    pub port: u16,
}

impl NetAddress {
    /// The canonical form of a socket address.
    pub fn new(address: SocketAddr) -> Self {
        Self { ip: address.ip().to_canonical(), port: address.port() }
    }

    /// Family byte (4 or 6) and sixteen address bytes, as they travel and lie in memory.
    pub fn to_parts(self) -> (u8, [u8; 16]) {
        match self.ip {
            IpAddr::V4(v4) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&v4.octets());
                (4, bytes)
            }
            IpAddr::V6(v6) => (6, v6.octets()),
        }
    }

    /// The inverse of `to_parts`; `None` when the family byte is neither 4 nor 6. The bytes are
    /// foreign, so that a mapped address may stand there although nobody should send it.
    pub fn from_parts(family: u8, bytes: [u8; 16], port: u16) -> Option<Self> {
        let ip = match family {
            4 => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
            6 => Ipv6Addr::from(bytes).to_canonical(),
            _ => return None,
        };
        Some(Self { ip, port })
    }

    pub(crate) fn encode(self, w: &mut Writer<'_>) {
        let (family, bytes) = self.to_parts();
        w.u8(family).u8(0).u16(self.port).put(&bytes);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let family = r.u8();
        r.u8();
        let port = r.u16();
        let unknown = WireError::Field { name: "family", found: u64::from(family) };
        Self::from_parts(family, r.take(), port).ok_or(unknown)
    }

    /// True for 127.0.0.0/8 and ::1, which never leave the node.
    pub fn is_loopback(self) -> bool {
        self.ip.is_loopback()
    }
}

impl fmt::Display for NetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.ip, self.port).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_round_trip_for_both_families() {
        for text in ["127.0.0.1:80", "[::1]:443", "[fe80::1]:1"] {
            let address = NetAddress::new(text.parse().unwrap());
            let (family, bytes) = address.to_parts();
            assert_eq!(NetAddress::from_parts(family, bytes, address.port), Some(address));
        }
    }

    #[test]
    fn a_mapped_address_is_the_plain_one() {
        let mapped = NetAddress::new("[::ffff:10.0.0.1]:9".parse().unwrap());
        assert_eq!(mapped, NetAddress::new("10.0.0.1:9".parse().unwrap()));
    }

    #[test]
    fn a_mapped_address_in_foreign_bytes_is_the_plain_one() {
        let mapped = std::net::Ipv6Addr::from([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1]);
        let read = NetAddress::from_parts(6, mapped.octets(), 80);
        assert_eq!(read, Some(NetAddress::new("127.0.0.1:80".parse().unwrap())));
    }
}
