//! Names of addresses, regions, locks, functions, areas and files, and the patterns that rules match them with.
//!
//! ```text
//! /net/tcp/127.0.0.1:6379      one address
//! /net/tcp/*:80                port 80 of any address
//! /net/tcp/10.0.0.1:*          any port of one address
//! /net/tcp/[::1]:*             IPv6 in brackets
//! /net/tcp/*:8000-8999         a range of ports
//! /net/*                       everything of the net service
//! /snapshot/model              one region
//! /snapshot/model/*            every region whose name begins so
//! /snapshot/*                  every region
//! /memory/kv/*                 every memory region whose name begins so
//! /lock/jobs/*                 every lock, semaphore and barrier whose name begins so
//! /rpc/kv/*                    every function whose name begins so
//! /store/redis/*               every area of the store whose name begins so
//! /file/srv/data/a.csv         one file, by its path
//! /file/srv/data/*             every file whose path begins so
//! /file/*                      every file
//! /cores                       how the machine's cores are parted
//! ```

use std::fmt;
use std::net::IpAddr;

use heliostat_abi::lock::name::PREFIX as LOCK_PREFIX;
use heliostat_abi::lock::LockName;
use heliostat_abi::memory::name::PREFIX as MEMORY_PREFIX;
use heliostat_abi::memory::MemoryName;
use heliostat_abi::name::NetAddress;
use heliostat_abi::rpc::name::PREFIX as RPC_PREFIX;
use heliostat_abi::rpc::FunctionName;
use heliostat_abi::snapshot::region::{NameError, RegionName, PREFIX};
use heliostat_abi::store::name::PREFIX as STORE_PREFIX;
use heliostat_abi::store::AreaName;

/// What stands before a file's path, which is absolute.
const FILE_PREFIX: &str = "/file";
/// The name of the partition of cores; there is one.
const CORES: &str = "/cores";

/// The name of a listening TCP address.
pub fn tcp_name(address: NetAddress) -> String {
    format!("/net/tcp/{address}")
}

/// A name that a right is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name<'a> {
    /// A listening TCP address.
    Tcp(NetAddress),
    /// A snapshot region.
    Region(&'a RegionName),
    /// A memory region.
    Memory(&'a MemoryName),
    /// A lock, semaphore or barrier.
    Lock(&'a LockName),
    /// A function.
    Function(&'a FunctionName),
    /// An area of the store.
    Area(&'a AreaName),
    /// A file, by its absolute path as the control plane sees it. Foreign bytes: a file may have
    /// several paths, and whoever may write a folder gives them.
    File(&'a str),
    /// How the machine's cores are parted. A rule without names is not about it: whoever may part
    /// them is named.
    Cores,
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(&tcp_name(*address)),
            Self::Region(name) => name.fmt(f),
            Self::Memory(name) => name.fmt(f),
            Self::Lock(name) => name.fmt(f),
            Self::Function(name) => name.fmt(f),
            Self::Area(name) => name.fmt(f),
            Self::File(path) => write!(f, "/file{path}"),
            Self::Cores => f.write_str(CORES),
        }
    }
}

impl From<NetAddress> for Name<'_> {
    fn from(address: NetAddress) -> Self {
        Self::Tcp(address)
    }
}

impl<'a> From<&'a RegionName> for Name<'a> {
    fn from(name: &'a RegionName) -> Self {
        Self::Region(name)
    }
}

impl<'a> From<&'a MemoryName> for Name<'a> {
    fn from(name: &'a MemoryName) -> Self {
        Self::Memory(name)
    }
}

impl<'a> From<&'a LockName> for Name<'a> {
    fn from(name: &'a LockName) -> Self {
        Self::Lock(name)
    }
}

impl<'a> From<&'a FunctionName> for Name<'a> {
    fn from(name: &'a FunctionName) -> Self {
        Self::Function(name)
    }
}

impl<'a> From<&'a AreaName> for Name<'a> {
    fn from(name: &'a AreaName) -> Self {
        Self::Area(name)
    }
}

/// Which names a rule is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NamePattern {
    /// Listening addresses.
    Tcp {
        /// Of this address, or of any.
        ip: Option<IpAddr>,
        /// First and last port.
        ports: (u16, u16),
    },
    /// One region.
    Region(RegionName),
    /// Regions whose name, without `/snapshot/`, begins so.
    Regions(String),
    /// One memory region.
    Memory(MemoryName),
    /// Memory regions whose name, without `/memory/`, begins so.
    Memories(String),
    /// One lock, semaphore or barrier.
    Lock(LockName),
    /// Those whose name, without `/lock/`, begins so.
    Locks(String),
    /// One function.
    Function(FunctionName),
    /// Functions whose name, without `/rpc/`, begins so.
    Functions(String),
    /// One area of the store.
    Area(AreaName),
    /// Areas whose name, without `/store/`, begins so.
    Areas(String),
    /// One file, by its path.
    File(String),
    /// Files whose path begins so.
    Files(String),
    /// How cores are parted.
    Cores,
}

/// Why a text is no pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PatternError {
    /// It begins with no known service.
    Service,
    /// There is no colon between address and port.
    Port,
    /// The address is neither `*` nor an address.
    Address(String),
    /// The port is neither `*`, a number nor a range.
    PortNumber(String),
    /// What stands after `/snapshot/`, `/memory/`, `/lock/`, `/rpc/` or `/store/` is no name.
    Region(NameError),
    /// What stands after `/file` has a part `..`, `.` or nothing, or a `*` before its end.
    Path(String),
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service => {
                write!(
                    f,
                    "names begin with /net/tcp/, /snapshot/, /memory/, /lock/, /rpc/, /store/ or /file/ (or are /net/*, /cores)"
                )
            }
            Self::Port => write!(f, "address and port are parted by a colon, as in *:80"),
            Self::Address(found) => {
                write!(f, "{found:?} is neither * nor an address (IPv6 goes in brackets)")
            }
            Self::PortNumber(found) => {
                write!(f, "{found:?} is neither *, a port (1-65535) nor a range as 8000-8999")
            }
            Self::Region(error) => error.fmt(f),
            Self::Path(found) => {
                write!(f, "{found:?} is no path without //, . and .., with * at its end at most")
            }
        }
    }
}

impl std::error::Error for PatternError {}

impl NamePattern {
    /// The pattern that matches every listening address.
    pub const ANY: NamePattern = NamePattern::Tcp { ip: None, ports: (0, u16::MAX) };

    /// Reads a pattern as a person writes it.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text == "/net/*" || text == "/net/tcp/*" {
            return Ok(Self::ANY);
        }
        if text == CORES {
            return Ok(Self::Cores);
        }
        if let Some(rest) = text.strip_prefix(PREFIX) {
            return Self::parse_named(rest, RegionName::parse, Self::Region, Self::Regions);
        }
        if let Some(rest) = text.strip_prefix(MEMORY_PREFIX) {
            return Self::parse_named(rest, MemoryName::parse, Self::Memory, Self::Memories);
        }
        if let Some(rest) = text.strip_prefix(LOCK_PREFIX) {
            return Self::parse_named(rest, LockName::parse, Self::Lock, Self::Locks);
        }
        if let Some(rest) = text.strip_prefix(RPC_PREFIX) {
            return Self::parse_named(rest, FunctionName::parse, Self::Function, Self::Functions);
        }
        if let Some(rest) = text.strip_prefix(STORE_PREFIX) {
            return Self::parse_named(rest, AreaName::parse, Self::Area, Self::Areas);
        }
        if let Some(path) = text.strip_prefix(FILE_PREFIX).filter(|path| path.starts_with('/')) {
            return Self::parse_file(path);
        }
        let rest = text.strip_prefix("/net/tcp/").ok_or(PatternError::Service)?;
        let (address, port) = rest.rsplit_once(':').ok_or(PatternError::Port)?;
        Ok(Self::Tcp { ip: parse_ip(address)?, ports: parse_ports(port)? })
    }

    /// Reads what stands behind a service's prefix: a name, or the beginning of names.
    fn parse_named<N>(
        rest: &str,
        parse: fn(&str) -> Result<N, NameError>,
        one: fn(N) -> Self,
        some: fn(String) -> Self,
    ) -> Result<Self, PatternError> {
        let Some(beginning) = rest.strip_suffix('*') else {
            return parse(rest).map(one).map_err(PatternError::Region);
        };
        // A name that began so would have to be one.
        match parse(&format!("{beginning}x")) {
            Ok(_) => Ok(some(beginning.to_owned())),
            Err(error) => Err(PatternError::Region(error)),
        }
    }

    fn parse_file(path: &str) -> Result<Self, PatternError> {
        let beginning = path.strip_suffix('*');
        let written = beginning.unwrap_or(path);
        let mut parts: Vec<_> = written[1..].split('/').collect();
        // A beginning may end in the middle of a part.
        if beginning.is_some() {
            parts.pop();
        }
        let is_right = |part: &&str| !matches!(*part, "" | "." | "..");
        if written.contains('*') || !parts.iter().all(is_right) {
            return Err(PatternError::Path(path.to_owned()));
        }
        Ok(match beginning {
            Some(beginning) => Self::Files(beginning.to_owned()),
            None => Self::File(path.to_owned()),
        })
    }

    /// Whether the pattern is about this name.
    pub fn matches<'a>(&self, name: impl Into<Name<'a>>) -> bool {
        match (self, name.into()) {
            (Self::Tcp { ip, ports }, Name::Tcp(address)) => {
                ip.is_none_or(|ip| ip == address.ip) && (ports.0..=ports.1).contains(&address.port)
            }
            (Self::Region(own), Name::Region(name)) => own == name,
            (Self::Regions(beginning), Name::Region(name)) => {
                name.as_str().starts_with(beginning.as_str())
            }
            (Self::Memory(own), Name::Memory(name)) => own == name,
            (Self::Memories(beginning), Name::Memory(name)) => {
                name.as_str().starts_with(beginning.as_str())
            }
            (Self::Lock(own), Name::Lock(name)) => own == name,
            (Self::Locks(beginning), Name::Lock(name)) => {
                name.as_str().starts_with(beginning.as_str())
            }
            (Self::Function(own), Name::Function(name)) => own == name,
            (Self::Functions(beginning), Name::Function(name)) => {
                name.as_str().starts_with(beginning.as_str())
            }
            (Self::Area(own), Name::Area(name)) => own == name,
            (Self::Areas(beginning), Name::Area(name)) => {
                name.as_str().starts_with(beginning.as_str())
            }
            (Self::File(own), Name::File(path)) => own == path,
            (Self::Files(beginning), Name::File(path)) => path.starts_with(beginning.as_str()),
            (Self::Cores, Name::Cores) => true,
            _ => false,
        }
    }

    /// Whether it is about some of the files beneath a directory, by its path without an ending
    /// slash, and says nothing of the directory itself.
    pub fn is_below(&self, directory: &str) -> bool {
        let (Self::File(path) | Self::Files(path)) = self else { return false };
        path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
    }
}

fn parse_ip(text: &str) -> Result<Option<IpAddr>, PatternError> {
    if text == "*" {
        return Ok(None);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let parsed: Option<IpAddr> = match bare {
        Some(inner) => inner.parse().ok().filter(IpAddr::is_ipv6),
        None => text.parse().ok().filter(IpAddr::is_ipv4),
    };
    let ip = parsed.ok_or_else(|| PatternError::Address(text.to_owned()))?;
    Ok(Some(ip.to_canonical()))
}

fn parse_ports(text: &str) -> Result<(u16, u16), PatternError> {
    if text == "*" {
        return Ok((0, u16::MAX));
    }
    let wrong = || PatternError::PortNumber(text.to_owned());
    let number = |part: &str| match part.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(wrong()),
    };
    let range = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if range.0 > range.1 {
        return Err(wrong());
    }
    Ok(range)
}

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;
