//! Who owns a TCP socket of this network namespace, by its address (source: proc_net_tcp(5)).
//!
//! /proc/net/tcp is readable by every user and needs no netlink; it is read only when two
//! different users connect, once per connection.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Owner of one socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Inode number, the same that fstat(2) gives to the owner.
    pub inode: u64,
}

/// The owner of the connected socket bound to `ip`:`port`.
pub fn find(ip: IpAddr, port: u16) -> Option<Owner> {
    let tables = match ip {
        IpAddr::V4(_) => ["/proc/net/tcp", "/proc/net/tcp6"],
        IpAddr::V6(_) => ["/proc/net/tcp6", "/proc/net/tcp6"],
    };
    tables.iter().find_map(|table| {
        let file = std::fs::File::open(table).ok()?;
        let lines = BufReader::new(file).lines().skip(1);
        lines.map_while(Result::ok).find_map(|line| owner_in(&line, ip, port))
    })
}

fn owner_in(line: &str, ip: IpAddr, port: u16) -> Option<Owner> {
    const ESTABLISHED: &str = "01";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, own_port) = fields.get(1)?.split_once(':')?;
    let same = u16::from_str_radix(own_port, 16) == Ok(port)
        && parse_ip(address)? == ip.to_canonical()
        && *fields.get(3)? == ESTABLISHED;
    if !same {
        return None;
    }
    Some(Owner { uid: fields.get(7)?.parse().ok()?, inode: fields.get(9)?.parse().ok()? })
}

/// Addresses stand there as 32-bit words in host order.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let words: Option<Vec<[u8; 4]>> = (0..hex.len() / 8)
        .map(|i| u32::from_str_radix(hex.get(i * 8..i * 8 + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect();
    let bytes = words?.concat();
    match bytes.len() {
        4 => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?))),
        16 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn both_ends_of_a_real_connection_have_their_owner() {
        for bind in ["127.0.0.1:0", "[::1]:0"] {
            let listener = std::net::TcpListener::bind(bind).unwrap();
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let address = client.local_addr().unwrap();
            let owner = find(address.ip(), address.port()).unwrap();
            assert_eq!(owner.uid, crate::process::effective_uid());
            assert_eq!(Some(owner.inode), crate::call::inode(client.as_raw_fd()));
        }
    }

    #[test]
    fn a_port_nobody_uses_has_no_owner() {
        assert_eq!(find("127.0.0.1".parse().unwrap(), 1), None);
    }
}
