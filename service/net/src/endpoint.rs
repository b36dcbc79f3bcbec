//! Listening endpoints, and the kernel's rule for which one a connection reaches.
//!
//! ```text
//! connect to 10.0.0.1:80     1. a listener on 10.0.0.1:80
//!                            2. a listener on 0.0.0.0:80
//!                            3. a listener on [::]:80 that is not IPv6-only
//! connect to [fd00::1]:80    1. [fd00::1]:80     2. [::]:80
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use heliostat_abi::name::NetAddress;

/// A network namespace, by the kernel's cookie for it; unique until the machine restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Namespace(pub u64);

/// A listening address in its network namespace: what a port object stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Endpoint {
    /// Where the address is valid.
    pub namespace: Namespace,
    /// The bound address, canonical.
    pub address: NetAddress,
}

/// What the kernel says of a listening socket that a session showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Takes no IPv4 connections though bound to an IPv6 address.
    pub v6_only: bool,
    /// User the kernel holds to own the socket; the kernel lets only one user share an address.
    pub owner_uid: u32,
    /// The kernel's cookie of the socket; the same in every process that inherited it.
    pub socket: u64,
}

impl Endpoint {
    /// Endpoints that take a connection to `self`, in the kernel's order, and whether the match
    /// needs a socket that is not IPv6-only.
    pub fn candidates(self) -> impl Iterator<Item = (Endpoint, bool)> {
        let at = |ip: IpAddr| {
            let address = NetAddress { ip, port: self.address.port };
            Endpoint { namespace: self.namespace, address }
        };
        let any_v4 = at(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let any_v6 = at(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let list = match self.address.ip {
            IpAddr::V4(_) => [Some((self, false)), Some((any_v4, false)), Some((any_v6, true))],
            IpAddr::V6(_) => [Some((self, false)), Some((any_v6, false)), None],
        };
        list.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(address: &str) -> Vec<(String, bool)> {
        let address = NetAddress::new(address.parse().unwrap());
        let wanted = Endpoint { namespace: Namespace(1), address };
        wanted.candidates().map(|(found, dual)| (found.address.to_string(), dual)).collect()
    }

    #[test]
    fn an_ipv4_destination_tries_exact_then_any_then_dual_stack() {
        let wanted = [("10.0.0.1:80", false), ("0.0.0.0:80", false), ("[::]:80", true)];
        assert_eq!(found("10.0.0.1:80"), wanted.map(|(text, dual)| (text.to_owned(), dual)));
    }

    #[test]
    fn an_ipv6_destination_never_reaches_an_ipv4_listener() {
        let wanted = [("[fd00::1]:80", false), ("[::]:80", false)];
        assert_eq!(found("[fd00::1]:80"), wanted.map(|(text, dual)| (text.to_owned(), dual)));
    }
}
