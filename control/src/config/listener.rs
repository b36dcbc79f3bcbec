//! Shared listeners: which addresses are shared, and by which rule.

use std::net::SocketAddr;

use heliostat_abi::listener::limits::{
    DEADLINE_MS_MAX, LISTENERS_MAX, PEEK_BYTES_MAX, WORKERS_PER_LISTENER_MAX,
};
use heliostat_abi::listener::Rule;
use heliostat_abi::name::NetAddress;

use super::error::{ConfigError, Fault};
use super::field::Field;

/// One address that is shared by whoever listens on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedAddress {
    /// Which.
    pub address: NetAddress,
    /// By which rule.
    pub rule: Rule,
    /// Workers that it may have.
    pub workers: usize,
}

/// Every address that is configured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedAddresses(pub Vec<SharedAddress>);

impl SharedAddresses {
    /// What is configured for an address.
    pub fn of(&self, address: NetAddress) -> Option<&SharedAddress> {
        self.0.iter().find(|shared| shared.address == address)
    }

    /// Workers that an address may have.
    pub fn workers_max(&self, address: NetAddress) -> usize {
        self.of(address).map_or(WORKERS_PER_LISTENER_MAX, |shared| shared.workers)
    }

    /// From the tables `[[listener]]`.
    pub(super) fn read(field: &Field<'_>) -> Result<SharedAddresses, ConfigError> {
        let list = field.list()?;
        if list.len() > LISTENERS_MAX {
            let message = format!("{} listeners, at most {LISTENERS_MAX} are allowed", list.len());
            return Err(field.fault(Fault::Value(message)));
        }
        let mut all = SharedAddresses::default();
        for field in &list {
            let shared = read_one(field)?;
            if all.of(shared.address).is_some() {
                let message = format!("{} is named twice", shared.address);
                return Err(field.fault(Fault::Value(message)));
            }
            all.0.push(shared);
        }
        Ok(all)
    }
}

fn read_one(field: &Field<'_>) -> Result<SharedAddress, ConfigError> {
    let section = field.section(&["address", "rule", "workers", "bytes", "deadline_ms"])?;
    let named = section.required("address")?;
    let text = named.text()?;
    let wrong = |_| named.fault(Fault::Value(format!("{text:?} is no address as 0.0.0.0:8080")));
    let address = NetAddress::new(text.parse::<SocketAddr>().map_err(wrong)?);
    let mut rule = Rule::LeastLoad;
    if let Some(named) = section.field("rule") {
        rule = named.choice(&Rule::ALL.map(|rule| (rule.name(), rule)))?;
    }
    if let Rule::Content(mut peek) | Rule::Plugin(mut peek) = rule {
        let least = u64::from(matches!(rule, Rule::Content(_)));
        section.number("bytes", (least, u64::from(PEEK_BYTES_MAX)), &mut peek.bytes_max)?;
        section.number("deadline_ms", (1, u64::from(DEADLINE_MS_MAX)), &mut peek.deadline_ms)?;
        rule = rule.with(peek);
    }
    let mut workers = WORKERS_PER_LISTENER_MAX;
    section.number("workers", (1, WORKERS_PER_LISTENER_MAX as u64), &mut workers)?;
    Ok(SharedAddress { address, rule, workers })
}
