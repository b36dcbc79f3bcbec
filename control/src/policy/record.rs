//! What a sealed program asked for: the policy it would need, and what was refused.
//!
//! Everything here is bounded: a program decides how much it asks for. Paths beyond the limit are
//! first folded into their folders (rule in [`fold`]); what does not fit then is counted only.

mod fold;
mod regions;
mod report;
mod secret;

pub use report::Refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use super::{
    Access, Endpoint, Host, NamePattern, NamesOf, PathGrant, Policy, RegionScope, Variable,
};
use regions::Regions;

/// Paths that are kept apart.
const PATHS_MAX: usize = 4096;
/// With so many after folding there is no use in folding again.
const CROWDED_FROM: usize = PATHS_MAX - PATHS_MAX / 8;
/// Addresses to connect to, addresses to listen at, names: each so many.
const ADDRESSES_MAX: usize = 512;
/// Kinds of calls: more than the kernel has.
const CALLS_MAX: usize = 512;
/// Users that a program becomes.
const USERS_MAX: usize = 64;
/// So many ports of one host are all its ports.
const PORTS_FOLD_FROM: usize = 8;

/// One thing that a program asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask<'a> {
    /// A file, resolved. Creating, renaming and removing are asked of the folder, for writing.
    Path(&'a Path, Access),
    /// A folder that is listed.
    Folder(&'a Path),
    /// To connect or send to an address.
    Connect(SocketAddr),
    /// To listen or receive at an address.
    Listen(SocketAddr),
    /// To look up a name.
    Name(&'a str),
    /// To have operations on files done by the control plane.
    Delegation,
    /// To publish, or attach to, a snapshot region; to make, or map, a memory region; to open a lock; to
    /// call, or serve, a function.
    Region(&'a RegionScope),
    /// A call that no grant allows, by its name.
    Call(&'a str),
}

/// How often something was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Times {
    granted: u64,
    refused: u64,
}

impl Times {
    fn count(&mut self, granted: bool) {
        let which = if granted { &mut self.granted } else { &mut self.refused };
        *which = which.saturating_add(1);
    }

    fn add(&mut self, other: Times) {
        self.granted = self.granted.saturating_add(other.granted);
        self.refused = self.refused.saturating_add(other.refused);
    }
}

/// What was asked of one path.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wanted {
    access: Access,
    /// It was only listed, and is a folder.
    listed: bool,
    times: Times,
    /// How many paths were folded into this one; 0 for none.
    folded: u64,
}

/// Collects what a program asks for.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// What needs no recording.
    system: Policy,
    /// Folders that are never granted as a whole because of what was asked below them.
    spared: Vec<PathBuf>,
    paths: BTreeMap<PathBuf, Wanted>,
    connects: BTreeMap<SocketAddr, Times>,
    listens: BTreeMap<SocketAddr, Times>,
    names: BTreeMap<String, Times>,
    delegations: Times,
    regions: Regions,
    calls: BTreeMap<String, u64>,
    users: BTreeSet<String>,
    /// Names by the addresses that their look-ups gave.
    learned: BTreeMap<IpAddr, String>,
    /// What it was told of the environment beside what every program is, and names it was not told.
    env: Vec<Variable>,
    untold: Vec<String>,
    /// Folding frees next to nothing any more, and costs as much each time.
    crowded: bool,
    /// What found no room.
    lost: u64,
}

impl Recorder {
    /// A recorder for a program that gets `system` in any case. `spared`, such as the user's home
    /// folder, is never granted as a whole because of what was asked below it.
    pub fn new(system: Vec<PathGrant>, spared: Vec<PathBuf>) -> Self {
        let system = Policy { grants: system, ..Policy::default() };
        Self { system, spared, ..Self::default() }
    }

    /// As it is, with what the program was told of its environment, and the names of what it was not.
    pub fn with_environment(self, env: Vec<Variable>, untold: Vec<String>) -> Self {
        Self { env, untold, ..self }
    }

    /// Takes down that the program asked for something, and whether it got it.
    pub fn note(&mut self, ask: Ask<'_>, granted: bool) {
        match ask {
            Ask::Path(path, access) => self.note_path(path, access, false, granted),
            Ask::Folder(path) => self.note_path(path, Access::ReadOnly, true, granted),
            Ask::Connect(to) => count(&mut self.connects, to, granted, &mut self.lost),
            Ask::Listen(at) => count(&mut self.listens, at, granted, &mut self.lost),
            Ask::Name(name) => self.note_name(name, granted),
            Ask::Delegation => self.delegations.count(granted),
            Ask::Region(scope) => {
                if !self.regions.note(scope, granted) {
                    self.lost = self.lost.saturating_add(1);
                }
            }
            Ask::Call(name) => {
                let room = self.calls.len() < CALLS_MAX || self.calls.contains_key(name);
                match room {
                    true => *self.calls.entry(name.to_owned()).or_default() += 1,
                    false => self.lost = self.lost.saturating_add(1),
                }
            }
        }
    }

    /// Takes down that a look-up of `name` gave an address, so that connections to the address are
    /// written with the name.
    pub fn learn(&mut self, name: &str, ip: IpAddr) {
        if self.learned.len() < ADDRESSES_MAX {
            self.learned.insert(ip.to_canonical(), name.trim_end_matches('.').to_ascii_lowercase());
        }
    }

    /// Takes down that the program became another user.
    pub fn note_user(&mut self, name: &str) {
        if self.users.len() < USERS_MAX {
            self.users.insert(name.to_owned());
        }
    }

    /// True when nothing was refused.
    pub fn is_content(&self) -> bool {
        self.calls.is_empty() && self.all_times().all(|times| times.refused == 0)
    }

    /// What the program needs: everything it asked for, granted or refused, folded.
    pub fn policy(&self) -> Policy {
        let wanted = self.folded();
        let grants = wanted.iter().filter(|(path, one)| self.grants_path(path, one, &wanted));
        let scopes: Vec<_> = self.regions.folded().0.into_keys().collect();
        let of = |names| scopes.iter().filter(|it| it.right.names() == names).cloned().collect();
        let grants = grants.map(|(path, one)| PathGrant { path: path.clone(), access: one.access });
        Policy {
            grants: grants.collect(),
            listen: self.listens.keys().map(|at| exactly(*at)).collect(),
            connect: self.connect_endpoints().into_iter().map(|(endpoint, _)| endpoint).collect(),
            lookup: self.lookups().into_iter().map(|(pattern, _)| pattern).collect(),
            env: self.env.clone(),
            users: self.users.iter().cloned().collect(),
            delegate: self.delegations != Times::default(),
            regions: of(NamesOf::Snapshots),
            memory: of(NamesOf::Memory),
            locks: of(NamesOf::Locks),
            calls: of(NamesOf::Functions),
            areas: of(NamesOf::Areas),
            ..Policy::default()
        }
    }

    /// What was asked for by path, many of a folder as the folder; not of one with a secret that was
    /// asked for, which would come with it unread.
    fn folded(&self) -> BTreeMap<PathBuf, Wanted> {
        let secrets = self.paths.keys().filter(|path| secret::of(path).is_some()).cloned();
        let spared: Vec<_> = self.spared.iter().cloned().chain(secrets).collect();
        fold::folded(&self.paths, fold::FROM, &spared)
    }

    fn all_times(&self) -> impl Iterator<Item = &Times> {
        let addresses = self.connects.values().chain(self.listens.values());
        let paths = self.paths.values().map(|one| &one.times);
        let regions = self.regions.each().map(|(_, times)| times);
        let others = self.names.values().chain([&self.delegations]).chain(regions);
        paths.chain(addresses).chain(others)
    }

    fn note_path(&mut self, path: &Path, access: Access, listed: bool, granted: bool) {
        if self.system.access(path) >= Some(access) {
            return;
        }
        let is_full = self.paths.len() >= PATHS_MAX && !self.paths.contains_key(path);
        if is_full && !self.crowded {
            self.paths = self.folded();
            self.crowded = self.paths.len() >= CROWDED_FROM;
        }
        // After folding a folder above may stand for this path.
        let above = path.ancestors().find(|above| match self.paths.get(*above) {
            Some(one) => *above == path || (one.folded > 0 && one.access >= access),
            None => false,
        });
        let key = above.unwrap_or(path);
        if self.paths.len() >= PATHS_MAX && !self.paths.contains_key(key) {
            self.lost = self.lost.saturating_add(1);
            return;
        }
        let fresh = Wanted { access, listed, times: Times::default(), folded: 0 };
        let one = self.paths.entry(key.to_owned()).or_insert(fresh);
        one.access = one.access.max(access);
        one.listed &= listed;
        one.times.count(granted);
    }

    /// Names are kept as they are matched, so that one name in many cases is one.
    fn note_name(&mut self, name: &str, granted: bool) {
        let key = match NamePattern::parse(name) {
            Ok(NamePattern::Exact(name)) => name,
            _ => return self.lost = self.lost.saturating_add(1),
        };
        count(&mut self.names, key, granted, &mut self.lost);
    }

    /// Whether a path becomes a grant: not one that holds secrets, or that a grant above it covers,
    /// nor a folder that grants below it make visible anyway, nor one that is too much to be granted
    /// because somebody looked at it.
    fn grants_path(&self, path: &Path, one: &Wanted, all: &BTreeMap<PathBuf, Wanted>) -> bool {
        if secret::of(path).is_some() || covering(path, one, all).is_some() {
            return false;
        }
        let is_top = fold::is_top(path);
        let counts = |other: &PathBuf, it: &Wanted| is_top || !is_of_a_listing(other, it, all);
        let is_below = |other: &PathBuf| other != path && other.starts_with(path);
        let leads_on = || all.iter().any(|(other, it)| is_below(other) && counts(other, it));
        match one.access {
            Access::ReadWrite => true,
            // What leads to a grant is there anyway.
            Access::Stat if one.folded > 0 => true,
            Access::Stat => !is_top && !leads_on() && !is_of_a_listing(path, one, all),
            Access::ReadOnly if one.listed => !fold::is_spared(path, &self.spared) && !leads_on(),
            Access::ReadOnly => true,
        }
    }

    /// Connections, with the name that led there, many ports of a host as all.
    fn connect_endpoints(&self) -> Vec<(Endpoint, Times)> {
        let mut hosts: BTreeMap<(Option<&str>, IpAddr), BTreeMap<u16, Times>> = BTreeMap::new();
        for (to, times) in &self.connects {
            let name = self.learned.get(&to.ip().to_canonical()).map(String::as_str);
            // All addresses of a name are one host.
            let ip = if name.is_some() { IpAddr::from([0; 4]) } else { to.ip() };
            hosts.entry((name, ip)).or_default().entry(to.port()).or_default().add(*times);
        }
        let mut endpoints = Vec::new();
        for ((name, ip), ports) in hosts {
            let named = name.and_then(|name| NamePattern::parse(name).ok()).map(Host::Name);
            let host = named.unwrap_or(Host::Ip(ip.to_canonical()));
            if ports.len() < PORTS_FOLD_FROM {
                let each =
                    |(port, times)| (Endpoint { host: host.clone(), ports: (port, port) }, times);
                endpoints.extend(ports.into_iter().map(each));
                continue;
            }
            let mut all = Times::default();
            ports.values().for_each(|times| all.add(*times));
            endpoints.push((Endpoint { host, ports: (0, u16::MAX) }, all));
        }
        endpoints
    }

    /// Looked-up names, without those that a connection grants anyway.
    fn lookups(&self) -> Vec<(NamePattern, Times)> {
        let connect = self.connect_endpoints();
        let named = |name: &str| connect.iter().any(|(endpoint, _)| endpoint.host.is_named(name));
        let others = self.names.iter().filter(|(name, _)| !named(name));
        others.filter_map(|(name, times)| Some((NamePattern::parse(name).ok()?, *times))).collect()
    }
}

/// Whether a path was only looked at, in a folder that was only listed. Where that folder is granted, so is
/// this; where it is not, the program finds in it what is granted, and looks at nothing else.
fn is_of_a_listing(path: &Path, one: &Wanted, all: &BTreeMap<PathBuf, Wanted>) -> bool {
    let above = path.parent().and_then(|above| all.get(above));
    one.access == Access::Stat && one.folded == 0 && above.is_some_and(|above| above.listed)
}

/// What is wanted above a path and gives what the path is wanted for.
fn covering<'a>(path: &'a Path, one: &Wanted, all: &BTreeMap<PathBuf, Wanted>) -> Option<&'a Path> {
    // A folder that was looked at is granted only if nothing below it is.
    let is_whole = |above: &Wanted| above.access != Access::Stat || above.folded > 0;
    let gives = |above: &Wanted| !above.listed && above.access >= one.access && is_whole(above);
    path.ancestors()
        .skip(1)
        .find(|above| all.get(*above).is_some_and(gives) && secret::of(above).is_none())
}

fn exactly(at: SocketAddr) -> Endpoint {
    let ip = at.ip().to_canonical();
    Endpoint { host: Host::Ip(ip), ports: (at.port(), at.port()) }
}

fn count<K: Ord>(map: &mut BTreeMap<K, Times>, key: K, granted: bool, lost: &mut u64) {
    if map.len() >= ADDRESSES_MAX && !map.contains_key(&key) {
        *lost = lost.saturating_add(1);
        return;
    }
    map.entry(key).or_default().count(granted);
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
