//! Addresses that names were found to have.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use heliostat_control::policy::NamePattern;

/// Addresses that are remembered; the program decides how many it asks for.
const ADDRESSES_MAX: usize = 4096;
/// Names of one address that are remembered.
const NAMES_MAX: usize = 16;
/// How long the supervisor's own look-up of a name counts.
const OWN_LASTS: Duration = Duration::from_secs(30);

/// Names by address, and the supervisor's own look-ups.
#[derive(Default)]
pub struct Learned {
    names: Mutex<BTreeMap<IpAddr, BTreeSet<String>>>,
    own: Mutex<BTreeMap<String, (Instant, Vec<IpAddr>)>>,
}

impl Learned {
    /// Takes down that a granted name has an address.
    pub fn learn(&self, name: &str, ip: IpAddr) {
        let Ok(mut names) = self.names.lock() else { return };
        if names.len() >= ADDRESSES_MAX && !names.contains_key(&ip) {
            return;
        }
        let known = names.entry(ip.to_canonical()).or_default();
        if known.len() < NAMES_MAX {
            known.insert(name.to_ascii_lowercase());
        }
    }

    /// Whether a name that matches was found to have the address.
    pub fn leads(&self, pattern: &NamePattern, ip: IpAddr) -> bool {
        let Ok(names) = self.names.lock() else { return false };
        let known = names.get(&ip.to_canonical());
        known.is_some_and(|known| known.iter().any(|name| pattern.matches(name)))
    }

    /// The addresses of a name of the policy, by libc; blocks. Names are as many as the policy has.
    pub fn resolve(&self, name: &str) -> Vec<IpAddr> {
        if let Ok(own) = self.own.lock() {
            if let Some((_, found)) = own.get(name).filter(|(at, _)| at.elapsed() < OWN_LASTS) {
                return found.clone();
            }
        }
        let found = (name, 0).to_socket_addrs().map(|all| all.map(|one| one.ip().to_canonical()));
        let found: Vec<_> = found.map(Iterator::collect).unwrap_or_default();
        if let Ok(mut own) = self.own.lock() {
            own.insert(name.to_owned(), (Instant::now(), found.clone()));
        }
        found
    }
}
