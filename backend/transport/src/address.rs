//! Where a node listens, in the words of one kind of transport.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// Where a node can be connected to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Address {
    /// A node of a simulated network, by its number there.
    Simulated(u32),
    /// Our own framing over TCP.
    Tcp(SocketAddr),
    /// A listener of UCX, which has protocols of its own behind this port.
    Ucx(SocketAddr),
}

/// A text that is no address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAnAddress(pub String);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Simulated(number) => write!(f, "simulated:{number}"),
            Address::Tcp(socket) => write!(f, "tcp:{socket}"),
            Address::Ucx(socket) => write!(f, "ucx:{socket}"),
        }
    }
}

impl FromStr for Address {
    type Err = NotAnAddress;

    /// Reads what [`Display`](fmt::Display) writes; host names are not resolved here.
    fn from_str(text: &str) -> Result<Address, NotAnAddress> {
        let wrong = || NotAnAddress(text.to_string());
        let (family, rest) = text.split_once(':').ok_or_else(wrong)?;
        match family {
            "simulated" => rest.parse().map(Address::Simulated).map_err(|_| wrong()),
            "tcp" => rest.parse().map(Address::Tcp).map_err(|_| wrong()),
            "ucx" => rest.parse().map(Address::Ucx).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for NotAnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no address; `tcp:HOST:PORT` and `ucx:HOST:PORT` are, with a numeric host",
            self.0
        )
    }
}

impl std::error::Error for NotAnAddress {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_back_as_it_is_written() {
        for text in ["simulated:7", "tcp:127.0.0.1:7070", "ucx:[::1]:9"] {
            assert_eq!(text.parse::<Address>().expect("an address").to_string(), text);
        }
    }

    #[test]
    fn a_text_without_family_port_or_numbers_is_refused() {
        for text in [
            "",
            "tcp",
            "tcp:",
            "tcp:localhost:1",
            "udp:127.0.0.1:1",
            "ucx:127.0.0.1",
            "simulated:-1",
        ] {
            assert_eq!(text.parse::<Address>(), Err(NotAnAddress(text.to_string())), "{text}");
        }
    }
}
