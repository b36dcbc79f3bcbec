//! Names of addresses, snapshot regions, memory regions, locks and files, and the patterns that rules match them with.
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
//! /file/srv/data/a.csv         one file, by its path
//! /file/srv/data/*             every file whose path begins so
//! /file/*                      every file
//! ```

use std::fmt;
use std::net::IpAddr;

use heliostat_abi::lock::name::PREFIX as LOCK_PREFIX;
use heliostat_abi::lock::LockName;
use heliostat_abi::memory::name::PREFIX as MEMORY_PREFIX;
use heliostat_abi::memory::MemoryName;
use heliostat_abi::name::NetAddress;
use heliostat_abi::snapshot::region::{NameError, RegionName, PREFIX};

/// What stands before a file's path, which is absolute.
const FILE_PREFIX: &str = "/file";

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
    /// A file, by its absolute path as the control plane sees it. Foreign bytes: a file may have
    /// several paths, and whoever may write a folder gives them.
    File(&'a str),
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(&tcp_name(*address)),
            Self::Region(name) => name.fmt(f),
            Self::Memory(name) => name.fmt(f),
            Self::Lock(name) => name.fmt(f),
            Self::File(path) => write!(f, "/file{path}"),
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
    /// One file, by its path.
    File(String),
    /// Files whose path begins so.
    Files(String),
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
    /// What stands after `/snapshot/`, `/memory/` or `/lock/` is no name.
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
                    "names begin with /net/tcp/, /snapshot/, /memory/, /lock/ or /file/ (or are /net/*)"
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
        if let Some(rest) = text.strip_prefix(PREFIX) {
            return Self::parse_region(rest);
        }
        if let Some(rest) = text.strip_prefix(MEMORY_PREFIX) {
            return Self::parse_memory(rest);
        }
        if let Some(rest) = text.strip_prefix(LOCK_PREFIX) {
            return Self::parse_lock(rest);
        }
        if let Some(path) = text.strip_prefix(FILE_PREFIX).filter(|path| path.starts_with('/')) {
            return Self::parse_file(path);
        }
        let rest = text.strip_prefix("/net/tcp/").ok_or(PatternError::Service)?;
        let (address, port) = rest.rsplit_once(':').ok_or(PatternError::Port)?;
        Ok(Self::Tcp { ip: parse_ip(address)?, ports: parse_ports(port)? })
    }

    fn parse_region(rest: &str) -> Result<Self, PatternError> {
        let Some(beginning) = rest.strip_suffix('*') else {
            return RegionName::parse(rest).map(Self::Region).map_err(PatternError::Region);
        };
        // A name that began so would have to be one.
        match RegionName::parse(&format!("{beginning}x")) {
            Ok(_) => Ok(Self::Regions(beginning.to_owned())),
            Err(error) => Err(PatternError::Region(error)),
        }
    }

    fn parse_memory(rest: &str) -> Result<Self, PatternError> {
        let Some(beginning) = rest.strip_suffix('*') else {
            return MemoryName::parse(rest).map(Self::Memory).map_err(PatternError::Region);
        };
        // A name that began so would have to be one.
        match MemoryName::parse(&format!("{beginning}x")) {
            Ok(_) => Ok(Self::Memories(beginning.to_owned())),
            Err(error) => Err(PatternError::Region(error)),
        }
    }

    fn parse_lock(rest: &str) -> Result<Self, PatternError> {
        let Some(beginning) = rest.strip_suffix('*') else {
            return LockName::parse(rest).map(Self::Lock).map_err(PatternError::Region);
        };
        // A name that began so would have to be one.
        match LockName::parse(&format!("{beginning}x")) {
            Ok(_) => Ok(Self::Locks(beginning.to_owned())),
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
            (Self::File(own), Name::File(path)) => own == path,
            (Self::Files(beginning), Name::File(path)) => path.starts_with(beginning.as_str()),
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
mod tests {
    use super::*;

    fn matches(pattern: &str, address: &str) -> bool {
        let address = NetAddress::new(address.parse().unwrap());
        NamePattern::parse(pattern).unwrap().matches(address)
    }

    #[test]
    fn patterns_match_address_and_port_separately() {
        assert!(matches("/net/tcp/127.0.0.1:6379", "127.0.0.1:6379"));
        assert!(!matches("/net/tcp/127.0.0.1:6379", "127.0.0.2:6379"));
        assert!(matches("/net/tcp/*:80", "[::1]:80"));
        assert!(!matches("/net/tcp/*:80", "[::1]:81"));
        assert!(matches("/net/tcp/[::1]:*", "[::1]:81"));
        assert!(matches("/net/tcp/*:8000-8999", "10.0.0.1:8080"));
        assert!(matches("/net/*", "10.0.0.1:1"));
    }

    #[test]
    fn regions_match_by_name_or_by_its_beginning() {
        let matches = |pattern, name| {
            let name = RegionName::parse(name).unwrap();
            NamePattern::parse(pattern).unwrap().matches(&name)
        };
        assert!(matches("/snapshot/a", "a") && !matches("/snapshot/a", "a/b"));
        assert!(matches("/snapshot/a/*", "a/b") && !matches("/snapshot/a/*", "ab"));
        assert!(matches("/snapshot/*", "x") && !matches("/net/*", "x"));
        let error = NamePattern::parse("/snapshot/a b").unwrap_err();
        assert_eq!(error, PatternError::Region(NameError::Character(' ')));
        assert!(NamePattern::parse("/snapshot/a*b").is_err());
        let everywhere = NamePattern::parse("/snapshot/*").unwrap();
        assert!(!everywhere.matches(NetAddress::new("127.0.0.1:1".parse().unwrap())));
    }

    #[test]
    fn memory_regions_match_by_name_or_by_its_beginning_and_are_no_snapshots() {
        let matches = |pattern: &str, name| {
            let name = MemoryName::parse(name).unwrap();
            NamePattern::parse(pattern).unwrap().matches(&name)
        };
        assert!(matches("/memory/kv/a", "kv/a") && !matches("/memory/kv/a", "kv/ab"));
        assert!(matches("/memory/kv/*", "kv/a") && matches("/memory/*", "x"));
        assert!(!matches("/snapshot/*", "x") && !matches("/file/*", "x"));
        assert!(NamePattern::parse("/memory/a//*").is_err());
    }

    #[test]
    fn locks_match_by_name_or_by_its_beginning_and_are_no_memory() {
        let matches = |pattern: &str, name| {
            let name = LockName::parse(name).unwrap();
            NamePattern::parse(pattern).unwrap().matches(&name)
        };
        assert!(matches("/lock/jobs/0", "jobs/0") && !matches("/lock/jobs/0", "jobs/01"));
        assert!(matches("/lock/jobs/*", "jobs/0") && !matches("/memory/*", "jobs/0"));
        assert!(NamePattern::parse("/lock/a//*").is_err());
    }

    #[test]
    fn names_are_shown_as_rules_write_them() {
        let region = RegionName::parse("model/a").unwrap();
        assert_eq!(Name::from(&region).to_string(), "/snapshot/model/a");
        assert_eq!(Name::File("/srv/a").to_string(), "/file/srv/a");
        let memory = MemoryName::parse("kv/a").unwrap();
        assert_eq!(Name::from(&memory).to_string(), "/memory/kv/a");
    }

    #[test]
    fn files_match_by_path_or_by_its_beginning() {
        let matches = |pattern: &str, path: &str| {
            let pattern = NamePattern::parse(pattern).unwrap();
            pattern.matches(Name::File(path))
        };
        assert!(matches("/file/srv/a", "/srv/a") && !matches("/file/srv/a", "/srv/a/b"));
        assert!(matches("/file/srv/*", "/srv/a/b") && !matches("/file/srv/*", "/srv"));
        assert!(matches("/file/srv/log*", "/srv/log.1") && matches("/file/*", "/x"));
        assert!(!matches("/snapshot/*", "/x") && !matches("/net/*", "/x"));
    }

    #[test]
    fn a_mapped_pattern_is_the_plain_address() {
        assert!(matches("/net/tcp/[::ffff:10.0.0.1]:80", "10.0.0.1:80"));
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        let why = |text: &str| NamePattern::parse(text).unwrap_err();
        assert_eq!(why("/files/x"), PatternError::Service);
        for wrong in ["/", "/a/../b", "/a//b", "/a*b", "/a/", "/a/./*", "/a/**"] {
            assert_eq!(why(&format!("/file{wrong}")), PatternError::Path(wrong.into()));
        }
        assert_eq!(why("/net/tcp/80"), PatternError::Port);
        assert_eq!(why("/net/tcp/::1:80"), PatternError::Address("::1".into()));
        assert_eq!(why("/net/tcp/*:0"), PatternError::PortNumber("0".into()));
        assert_eq!(why("/net/tcp/*:9-8"), PatternError::PortNumber("9-8".into()));
    }
}
