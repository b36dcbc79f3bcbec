//! What a sealed program may reach: the model, how parts are merged, and the decisions.
//!
//! Pure: paths are compared as texts, part by part, and names are never looked up. Whoever asks
//! has resolved the path (no `..`, no symbolic link) and knows the address that will be used.
//! Reading and writing the file is [`read`] and [`write`]; what a program turned out to need is
//! collected by [`record`].

mod endpoint;
mod error;
mod grant;
mod hostname;
mod read;
pub mod record;
mod size;
mod variable;
mod write;

pub use endpoint::{Endpoint, EndpointError, Host};
pub use error::PolicyError;
pub use grant::{GrantError, PathGrant};
pub use heliostat_abi::snapshot::region_scope::{
    NamesOf, RegionNames, RegionRight, RegionScope, Whose,
};
pub use hostname::{NameError, NamePattern};
pub use size::{parse_bytes, SizeError};
pub use variable::{Variable, VariableError};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Component, Path};

use heliostat_abi::snapshot::region::RegionName;

/// Grants, endpoints and patterns that one policy may hold, each: all are looked at in turn.
pub const ENTRIES_MAX: usize = 4096;

/// What may be done below a path. Greater allows more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// See that it is there, and its attributes.
    Stat,
    /// Also read and execute.
    ReadOnly,
    /// Also write, create, rename and remove.
    ReadWrite,
}

impl Access {
    /// As it stands after a path.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        }
    }
}

/// Limits of all processes of a sealed program together. None: the limits of whoever starts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Bytes of memory, 1 MiB to 64 TiB.
    pub memory: Option<u64>,
    /// Processes and threads, 1 to 4194304.
    pub processes: Option<u32>,
    /// Bytes in the temporary folders that are the program's own, as `memory`.
    pub tmp: Option<u64>,
}

/// Everything that a sealed program may reach. What is not in it does not exist for the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Whether what any dynamically linked program needs to start is granted too.
    pub system: bool,
    /// Files and folders. The grant with the longest path decides; of equal paths the last.
    pub grants: Vec<PathGrant>,
    /// Addresses at which it may listen or receive.
    pub listen: Vec<Endpoint>,
    /// Addresses that it may connect or send to.
    pub connect: Vec<Endpoint>,
    /// Names that it may look up, besides those in `connect`.
    pub lookup: Vec<NamePattern>,
    /// What it is told of the environment, besides what crosses into every program.
    pub env: Vec<Variable>,
    /// Names of users that a program of root's may become.
    pub users: Vec<String>,
    /// Whether it may have operations on its files done by the control plane's server loops.
    pub delegate: bool,
    /// Snapshot regions that it may publish, or attach to.
    pub regions: Vec<RegionScope>,
    /// Memory regions that it may make, or map; the control plane reads and writes them for it.
    pub memory: Vec<RegionScope>,
    /// Locks, semaphores and barriers that it may open.
    pub locks: Vec<RegionScope>,
    /// Functions that it may call, or serve.
    pub calls: Vec<RegionScope>,
    /// Areas of a store that it may open, by a server loop.
    pub areas: Vec<RegionScope>,
    /// What it may use.
    pub limits: Limits,
}

impl Default for Policy {
    /// Nothing but the system grants.
    fn default() -> Self {
        Self {
            system: true,
            grants: Vec::new(),
            listen: Vec::new(),
            connect: Vec::new(),
            lookup: Vec::new(),
            env: Vec::new(),
            users: Vec::new(),
            delegate: false,
            regions: Vec::new(),
            memory: Vec::new(),
            locks: Vec::new(),
            calls: Vec::new(),
            areas: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl Policy {
    /// Adds what `other` grants. Of one path and of one limit `other`'s word is the last, so that a
    /// flag can narrow what a file gives; the system grants stay only if both want them.
    pub fn add(&mut self, other: Policy) {
        self.system &= other.system;
        self.grants.retain(|grant| other.grants.iter().all(|later| later.path != grant.path));
        self.grants.extend(other.grants);
        append_new(&mut self.listen, other.listen);
        append_new(&mut self.connect, other.connect);
        append_new(&mut self.lookup, other.lookup);
        self.env.retain(|one| other.env.iter().all(|later| later.name() != one.name()));
        self.env.extend(other.env);
        append_new(&mut self.users, other.users);
        self.delegate |= other.delegate;
        append_new(&mut self.regions, other.regions);
        append_new(&mut self.memory, other.memory);
        append_new(&mut self.locks, other.locks);
        append_new(&mut self.calls, other.calls);
        append_new(&mut self.areas, other.areas);
        self.limits.memory = other.limits.memory.or(self.limits.memory);
        self.limits.processes = other.limits.processes.or(self.limits.processes);
        self.limits.tmp = other.limits.tmp.or(self.limits.tmp);
    }

    /// Makes relative paths absolute below `folder`: the working folder for flags, the file's own
    /// for a file.
    pub fn anchor(&mut self, folder: &Path) {
        for grant in &mut self.grants {
            grant.path = folder.join(&grant.path);
        }
    }

    /// Whether a variable that is set outside is told to the program. `by_default`: what is harmless
    /// crosses unasked.
    pub fn lets_cross(&self, name: &str, by_default: bool) -> bool {
        by_default && Variable::is_harmless(name) || self.env.iter().any(|it| it.lets_cross(name))
    }

    /// What may be done with `path`, which is absolute and resolved: the access of the grant with
    /// the longest path that is a whole beginning of it. None: it does not exist for the program.
    pub fn access(&self, path: &Path) -> Option<Access> {
        let resolved = path.is_absolute() && path.components().all(|c| c != Component::ParentDir);
        let above = self.grants.iter().filter(|grant| path.starts_with(&grant.path));
        let longest = above.max_by_key(|grant| grant.path.components().count());
        longest.filter(|_| resolved).map(|grant| grant.access)
    }

    /// Whether an address may be connected or sent to. Names in `connect` do not count here but
    /// `localhost`: their addresses are known to whoever looked them up, see
    /// [`connect_names`](Self::connect_names).
    pub fn may_connect(&self, to: SocketAddr) -> bool {
        let to = destination(to);
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        self.connect.iter().any(|endpoint| endpoint.reaches(to))
    }

    /// The names whose addresses may be connected to at `port`.
    pub fn connect_names(&self, port: u16) -> impl Iterator<Item = &NamePattern> {
        let here = self.connect.iter().filter(move |endpoint| endpoint.has_port(port));
        here.filter_map(|endpoint| match &endpoint.host {
            Host::Name(pattern) => Some(pattern),
            Host::Any | Host::Ip(_) => None,
        })
    }

    /// Whether a socket may be bound to an address to receive. Port 0, a port that the kernel
    /// chooses, is one to be granted like others.
    pub fn may_listen(&self, at: SocketAddr) -> bool {
        let at = SocketAddr::new(at.ip().to_canonical(), at.port());
        self.listen.iter().any(|endpoint| endpoint.contains(at))
    }

    /// Whether a group of hosts may be joined, which tells them so: it may be sent to, or is named
    /// as what may be listened at, at whatever port.
    pub fn may_join(&self, group: IpAddr) -> bool {
        let group = group.to_canonical();
        let is_named = |endpoint: &Endpoint| endpoint.host == Host::Ip(group);
        self.connect.iter().any(|endpoint| endpoint.is_about(group))
            || self.listen.iter().any(is_named)
    }

    /// What it may use of a service's names.
    pub fn scopes(&self, names: NamesOf) -> &[RegionScope] {
        match names {
            NamesOf::Snapshots => &self.regions,
            NamesOf::Memory => &self.memory,
            NamesOf::Locks => &self.locks,
            NamesOf::Functions => &self.calls,
            NamesOf::Areas => &self.areas,
        }
    }

    /// All that has names, of all services: what the control plane is told.
    pub fn all_scopes(&self) -> impl Iterator<Item = &RegionScope> {
        NamesOf::ALL.into_iter().flat_map(|names| self.scopes(names))
    }

    /// Whether a program of user `own` has a right on what has a name among those of the user `owner`.
    pub fn may_use_region(
        &self,
        right: RegionRight,
        name: &RegionName,
        owner: u32,
        own: u32,
    ) -> bool {
        self.scopes(right.names()).iter().any(|scope| scope.has(right, name, owner, own))
    }

    /// Whether a name may be looked up: it is granted, or it is one that may be connected to.
    pub fn may_look_up(&self, name: &str) -> bool {
        let connectable = self.connect.iter().any(|endpoint| endpoint.host.is_named(name));
        connectable || self.lookup.iter().any(|pattern| pattern.matches(name))
    }
}

/// The address that is judged for one that a program names, and that must be used: "no address"
/// is this machine's 127.0.0.1 or ::1. The kernel would take the socket's own address instead,
/// where it is bound to one (source: net/ipv4/route.c).
pub fn destination(mut to: SocketAddr) -> SocketAddr {
    let loopback = match to.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        // A socket of IPv6 takes IPv4 only inside.
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some_and(|ip| ip.is_unspecified()) => {
            IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped())
        }
        _ => return to,
    };
    to.set_ip(loopback);
    to
}

fn append_new<T: PartialEq>(list: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !list.contains(&one) {
            list.push(one);
        }
    }
}

#[cfg(test)]
#[path = "policy/tests.rs"]
mod tests;
