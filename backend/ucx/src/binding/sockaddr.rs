//! Addresses as the system's records, there and back.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address as a record, and how much of it counts.
pub struct Raw {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl Raw {
    pub fn of(address: SocketAddr) -> Raw {
        // SAFETY: a record of numbers, for which all zero is a value.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let at: *mut libc::sockaddr_storage = &mut storage;
        let length = match address {
            SocketAddr::V4(v4) => {
                let record = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                // SAFETY: storage is as large as any address, and aligned for each.
                unsafe { at.cast::<libc::sockaddr_in>().write(record) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let record = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: storage is as large as any address, and aligned for each.
                unsafe { at.cast::<libc::sockaddr_in6>().write(record) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Raw { storage, length: length as libc::socklen_t }
    }

    /// The record as the system's calls take it; valid as long as `self` stays where it is.
    pub fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub fn length(&self) -> libc::socklen_t {
        self.length
    }
}

/// The address of a record, if it is of one of the two families.
pub fn address_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at: *const libc::sockaddr_storage = storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is the record in it, which the storage holds whole.
            let record = unsafe { at.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(record.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(record.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is the record in it, which the storage holds whole.
            let record = unsafe { at.cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(record.sin6_addr.s6_addr);
            Some(SocketAddr::new(ip.into(), u16::from_be(record.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_from_its_record() {
        for text in ["127.0.0.1:80", "10.1.2.3:65535", "[::1]:9", "[2001:db8::7]:1234"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(address_of(&Raw::of(address).storage), Some(address));
        }
    }
}
