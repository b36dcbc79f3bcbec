//! Addresses that may be listened at or connected to, as people write them.
//!
//! ```text
//! 8080                 port 8080 of any own address (to listen only)
//! 127.0.0.1:8080       one address
//! [::1]:80             IPv6 in brackets
//! db.example.org:5432  the addresses of a name, or *.example.org:443 (to connect only)
//! localhost:6379       127.0.0.1 and ::1
//! *:8000-8099          a range of ports of any address; *:* is any port
//! *                    everything
//! 127.0.0.1:0          a port that the kernel chooses (to listen only)
//! ```

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::hostname::{NameError, NamePattern};

/// Which host an endpoint is about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Host {
    /// Every address.
    Any,
    /// One address; IPv4 inside IPv6 is IPv4. "No address" (`0.0.0.0`, `[::]`) stands for all own
    /// addresses of its kind and is for listening only; `[::]` takes in IPv4 as such a socket does.
    Ip(IpAddr),
    /// The addresses that a look-up of a name gives.
    Name(NamePattern),
}

impl Host {
    /// Whether this is a name that a look-up may be about.
    pub(super) fn is_named(&self, name: &str) -> bool {
        matches!(self, Self::Name(pattern) if pattern.matches(name))
    }

    /// `localhost` needs no look-up.
    fn is_loopback_name(&self) -> bool {
        matches!(self, Self::Name(NamePattern::Exact(name)) if name == "localhost")
    }

    fn has(&self, ip: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Ip(own) => *own == ip,
            Self::Name(_) => self.is_loopback_name() && is_localhost(ip),
        }
    }
}

/// One address or many.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    /// Of which host.
    pub host: Host,
    /// First and last port.
    pub ports: (u16, u16),
}

/// Why a text is no endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EndpointError {
    /// A connection needs a host, and there is only a port.
    NoHost {
        /// The port.
        port: String,
    },
    /// There is no port.
    NoPort {
        /// What is there.
        found: String,
    },
    /// An IPv6 address without brackets: nobody knows where the port begins.
    Brackets {
        /// What is there.
        found: String,
    },
    /// What stands in brackets is no IPv6 address.
    NotIpv6 {
        /// What stands there.
        found: String,
    },
    /// The port is neither a number, a range nor a star.
    Port {
        /// What stands there.
        found: String,
    },
    /// A name cannot be listened at.
    ListenName {
        /// The name.
        found: String,
    },
    /// "No address" cannot be connected to.
    Unspecified {
        /// The address.
        found: IpAddr,
    },
    /// The host is no name.
    Name(NameError),
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost { port } => write!(
                f,
                "{port:?} has no host; write 127.0.0.1:{port} for this machine, NAME:{port} or \
                 *:{port} for any"
            ),
            Self::NoPort { found } => {
                write!(f, "{found:?} has no port; write {found}:443, or {found}:* for any port")
            }
            Self::Brackets { found } => {
                write!(f, "{found:?}: IPv6 addresses go in brackets, as [::1]:80")
            }
            Self::NotIpv6 { found } => {
                write!(f, "{found:?} in brackets is no IPv6 address; write it as [::1]:80")
            }
            Self::Port { found } => write!(
                f,
                "{found:?} is no port; write 1 to 65535, a range as 8000-8099, or * (0, to listen \
                 only, is a port that the kernel chooses)"
            ),
            Self::ListenName { found } => write!(
                f,
                "{found:?} is a name; to listen write an own address, as 127.0.0.1:8080, or only \
                 the port for all"
            ),
            Self::Unspecified { found } => write!(
                f,
                "{found} is no destination; write 127.0.0.1 for this machine or * for any"
            ),
            Self::Name(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EndpointError {}

impl Endpoint {
    const EVERYTHING: Endpoint = Endpoint { host: Host::Any, ports: (0, u16::MAX) };

    /// Reads `[ADDRESS:]PORT`, where a sealed program may listen.
    pub fn parse_listen(text: &str) -> Result<Self, EndpointError> {
        if text == "*" {
            return Ok(Self::EVERYTHING);
        }
        let Some((host, port)) = split(text)? else {
            return Ok(Self { host: Host::Any, ports: parse_ports(text, true)? });
        };
        let host = parse_host(host)?;
        match &host {
            Host::Name(name) if !host.is_loopback_name() => {
                Err(EndpointError::ListenName { found: name.to_string() })
            }
            _ => Ok(Self { host, ports: parse_ports(port, true)? }),
        }
    }

    /// Reads `HOST:PORT`, where a sealed program may connect or send to.
    pub fn parse_connect(text: &str) -> Result<Self, EndpointError> {
        if text == "*" {
            return Ok(Self::EVERYTHING);
        }
        let Some((host, port)) = split(text)? else {
            return Err(match parse_ports(text, false) {
                Ok(_) => EndpointError::NoHost { port: text.to_owned() },
                Err(_) => EndpointError::NoPort { found: text.to_owned() },
            });
        };
        match parse_host(host)? {
            Host::Ip(found) if found.is_unspecified() => Err(EndpointError::Unspecified { found }),
            host => Ok(Self { host, ports: parse_ports(port, false)? }),
        }
    }

    /// Whether the port is one of these.
    pub fn has_port(&self, port: u16) -> bool {
        (self.ports.0..=self.ports.1).contains(&port)
    }

    /// Whether it is about a host, at whatever port. The caller has canonical addresses.
    pub(super) fn is_about(&self, ip: IpAddr) -> bool {
        self.host.has(ip)
    }

    /// Whether what is sent to `to` goes here. The caller has canonical addresses.
    pub(super) fn reaches(&self, to: SocketAddr) -> bool {
        self.has_port(to.port()) && self.host.has(to.ip())
    }

    /// Whether a socket bound to `at` receives nothing that this does not give.
    pub(super) fn contains(&self, at: SocketAddr) -> bool {
        let all_own = match (&self.host, at.ip()) {
            (Host::Ip(IpAddr::V4(own)), IpAddr::V4(_)) => own.is_unspecified(),
            (Host::Ip(IpAddr::V6(own)), _) => own.is_unspecified(),
            _ => false,
        };
        self.has_port(at.port()) && (all_own || self.host.has(at.ip()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::EVERYTHING {
            return f.write_str("*");
        }
        match &self.host {
            Host::Any => write!(f, "*:")?,
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:")?,
            Host::Ip(ip) => write!(f, "{ip}:")?,
            Host::Name(name) => write!(f, "{name}:")?,
        }
        match self.ports {
            (0, u16::MAX) => f.write_str("*"),
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

fn is_localhost(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.octets() == [127, 0, 0, 1])
        || ip == IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])
}

/// Host and port, or nothing when there is no colon between them.
fn split(text: &str) -> Result<Option<(&str, &str)>, EndpointError> {
    if text.ends_with(']') && text.starts_with('[') {
        return Err(EndpointError::NoPort { found: text.to_owned() });
    }
    match text.rsplit_once(':') {
        Some((host, _)) if host.contains(':') && !host.starts_with('[') => {
            Err(EndpointError::Brackets { found: text.to_owned() })
        }
        parts => Ok(parts),
    }
}

fn parse_host(text: &str) -> Result<Host, EndpointError> {
    if text == "*" {
        return Ok(Host::Any);
    }
    if let Some(rest) = text.strip_prefix('[') {
        let inner = rest.strip_suffix(']').unwrap_or(rest);
        let ip: Option<std::net::Ipv6Addr> = inner.parse().ok();
        let ip = ip.ok_or_else(|| EndpointError::NotIpv6 { found: inner.to_owned() })?;
        return Ok(Host::Ip(IpAddr::V6(ip).to_canonical()));
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(Host::Ip(ip));
    }
    NamePattern::parse(text).map(Host::Name).map_err(EndpointError::Name)
}

fn parse_ports(text: &str, zero: bool) -> Result<(u16, u16), EndpointError> {
    let wrong = || EndpointError::Port { found: text.to_owned() };
    if text == "*" {
        return Ok((0, u16::MAX));
    }
    let number = |part: &str| match part.parse::<u16>() {
        Ok(port) if part.bytes().all(|byte| byte.is_ascii_digit()) => Ok(port),
        _ => Err(wrong()),
    };
    match text.split_once('-') {
        None => match number(text)? {
            0 if !zero => Err(wrong()),
            port => Ok((port, port)),
        },
        Some((first, last)) => match (number(first)?, number(last)?) {
            (first, last) if 0 < first && first <= last => Ok((first, last)),
            _ => Err(wrong()),
        },
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
