//! Who owns a TCP socket of this network namespace, by its address (source: proc_net_tcp(5)).
//!
//! /proc/net/tcp is readable by every user and needs no netlink; it is read only when two
//! different users connect, once per connection.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Owner of one socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Inode number, the same that fstat(2) gives to the owner.
    pub inode: u64,
}

/// One connection of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Own address.
    pub local: SocketAddr,
    /// The other end's address.
    pub remote: SocketAddr,
    /// User.
    pub uid: u32,
    /// Inode number; 0 when no descriptor refers to it any more.
    pub inode: u64,
    is_established: bool,
}

/// The connections in the text of a table, IPv4-mapped addresses as IPv4.
pub fn rows(text: &str) -> impl Iterator<Item = Row> + '_ {
    text.lines().filter_map(row)
}

/// The owner of the connected socket bound to `ip`:`port`.
pub fn find(ip: IpAddr, port: u16) -> Option<Owner> {
    let tables = match ip {
        IpAddr::V4(_) => ["/proc/net/tcp", "/proc/net/tcp6"],
        IpAddr::V6(_) => ["/proc/net/tcp6", "/proc/net/tcp6"],
    };
    let wanted = SocketAddr::new(ip.to_canonical(), port);
    // Few lines have that port, and only these are worth taking apart.
    let with_port = format!(":{port:04X} ");
    tables.iter().find_map(|table| {
        let file = std::fs::File::open(table).ok()?;
        let lines = BufReader::new(file).lines().skip(1).map_while(Result::ok);
        let mut rows = lines.filter(|line| line.contains(&with_port)).filter_map(|line| row(&line));
        let found = rows.find(|row| row.local == wanted && row.is_established)?;
        Some(Owner { uid: found.uid, inode: found.inode })
    })
}

fn row(line: &str) -> Option<Row> {
    const ESTABLISHED: &str = "01";
    let fields: Vec<&str> = line.split_whitespace().collect();
    Some(Row {
        local: parse_address(fields.get(1)?)?,
        remote: parse_address(fields.get(2)?)?,
        uid: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
        is_established: *fields.get(3)? == ESTABLISHED,
    })
}

fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    Some(SocketAddr::new(parse_ip(ip)?, u16::from_str_radix(port, 16).ok()?))
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
            assert_eq!(owner.uid, heliostat_base::process::effective_uid());
            assert_eq!(Some(owner.inode), heliostat_base::call::inode(client.as_raw_fd()));
        }
    }

    #[test]
    fn a_port_nobody_uses_has_no_owner() {
        assert_eq!(find("127.0.0.1".parse().unwrap(), 1), None);
    }
}
