//! What a restricted session may ask: services, and where its streams may lead.
//!
//! Whoever hands a connection to the control plane to somebody it does not trust restricts it
//! first. A restriction is put together by `Allow`, closed by `Restrict`, and never widened.

use std::net::{IpAddr, Ipv4Addr};

use crate::name::NetAddress;
use crate::wire::{Reader, WireError, Writer};

/// Which services a restricted session may use: a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Services(u32);

impl Services {
    /// None: the session may greet and nothing else.
    pub const NONE: Services = Services(0);
    /// Streams: to register sockets that it shows, and to open channels to what was allowed.
    pub const STREAMS: Services = Services(1);
    /// Leases on files that it shows.
    pub const FILES: Services = Services(2);
    /// Delegated operations on files that it shows; on no names.
    pub const DELEGATION: Services = Services(4);
    /// Snapshot regions that were allowed.
    pub const SNAPSHOTS: Services = Services(8);
    /// Memory regions, by delegated operations.
    pub const MEMORY: Services = Services(16);
    /// Locks that were allowed.
    pub const LOCKS: Services = Services(32);
    /// Functions that were allowed, to call and to serve.
    pub const CALLS: Services = Services(64);
    /// Areas that were allowed, by a server loop.
    pub const AREAS: Services = Services(128);
    const ALL: u32 = 255;

    /// These and those.
    pub const fn and(self, other: Services) -> Services {
        Services(self.0 | other.0)
    }

    /// Whether all of `wanted` are among these.
    pub const fn have(self, wanted: Services) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// With the process that they are for.
    pub(crate) fn encode(self, w: &mut Writer<'_>, pid: u32) {
        w.u32(self.0).u32(pid);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        match r.u32() {
            bits if bits & !Self::ALL == 0 => Ok(Self(bits)),
            found => Err(WireError::Field { name: "services", found: u64::from(found) }),
        }
    }
}

/// Where streams of a restricted session may lead: one host or all, and a range of ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The host; none for all.
    pub host: Option<IpAddr>,
    /// First and last port.
    pub ports: (u16, u16),
}

impl Destination {
    /// Whether an address lies here.
    pub fn has(&self, address: NetAddress) -> bool {
        let host = self.host.is_none_or(|host| host.to_canonical() == address.ip);
        host && (self.ports.0..=self.ports.1).contains(&address.port)
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        let ip = self.host.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        NetAddress { ip: ip.to_canonical(), port: self.ports.0 }.encode(w);
        w.u16(self.ports.1).u16(u16::from(self.host.is_none()));
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let address = NetAddress::decode(r)?;
        let (last, all) = (r.u16(), r.u16());
        if last < address.port {
            return Err(WireError::Field { name: "last port", found: u64::from(last) });
        }
        let host = match all {
            0 => Some(address.ip),
            1 if address.ip.is_unspecified() => None,
            found => return Err(WireError::Field { name: "all hosts", found: u64::from(found) }),
        };
        Ok(Self { host, ports: (address.port, last) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(host: Option<&str>, ports: (u16, u16), address: &str) -> bool {
        let host = host.map(|host| host.parse().unwrap());
        Destination { host, ports }.has(NetAddress::new(address.parse().unwrap()))
    }

    #[test]
    fn a_destination_has_its_host_and_its_ports_and_no_others() {
        assert!(has(Some("127.0.0.1"), (80, 81), "127.0.0.1:81"));
        assert!(has(Some("::ffff:127.0.0.1"), (80, 81), "127.0.0.1:80"));
        assert!(!has(Some("127.0.0.1"), (80, 81), "127.0.0.1:82"));
        assert!(!has(Some("127.0.0.1"), (80, 81), "127.0.0.2:80"));
        assert!(has(None, (80, 80), "[::1]:80"));
        assert!(!has(None, (80, 80), "[::1]:79"));
    }

    #[test]
    fn services_are_a_set() {
        let both = Services::STREAMS.and(Services::FILES);
        assert!(both.have(Services::FILES) && both.have(Services::STREAMS));
        assert!(!Services::STREAMS.have(Services::FILES));
        assert!(!Services::NONE.have(Services::STREAMS));
    }
}
