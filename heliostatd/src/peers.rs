//! The other ends of one process's connections, looked for in the reports of all sessions.
//!
//! An end often knows only that the other one did not take part: why, stands in the other's report,
//! under the same two addresses in reverse. What is found is foreign: it is shown and decides nothing.

use std::collections::HashMap;

use heliostat_abi::code::Native;
use heliostat_abi::limits::REPORT_ENTRIES_MAX;
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::report::{Counter, Entry, Path};
use heliostat_service_net::Namespace;
use serde_json::{json, Value};

use crate::memory::Report;

/// Places of reports looked at for one question: some ten milliseconds, in which nobody else is served.
pub const PLACES_MAX: usize = 1 << 18;
/// Holders of one other end that are shown; forked children hold what their parents hold.
const HOLDERS_MAX: usize = 8;
/// Of all other ends together: two for each connection that one explanation lists.
const HOLDERS_IN_ALL: usize = 2 * REPORT_ENTRIES_MAX;

/// An other end in one session.
struct Other {
    path: Path,
    /// Its process; none where it is not the asker's to see.
    shown: Option<Value>,
}

/// Namespace, and the addresses as the other end has them.
type Key = (Namespace, NetAddress, NetAddress);

/// Other ends that are looked for, and what was found of them.
pub struct Peers {
    found: HashMap<Key, Vec<Other>>,
    places_left: usize,
    holders_left: usize,
    /// Every connection of every session was looked at, as far as reports go.
    pub is_complete: bool,
}

impl Peers {
    /// Looks for the other ends of these connections.
    pub fn wanted<'a>(connections: impl Iterator<Item = (Namespace, &'a Entry)>) -> Self {
        let each = |(namespace, entry): (Namespace, &Entry)| {
            ((namespace, entry.peer, entry.local), Vec::new())
        };
        Self {
            found: connections.map(each).collect(),
            places_left: PLACES_MAX,
            holders_left: HOLDERS_IN_ALL,
            is_complete: true,
        }
    }

    /// Takes what one session reports.
    pub fn look_into(&mut self, namespace: Namespace, report: &Report, shown: Option<&Value>) {
        let places = report.places();
        let has_unlisted = report.counters()[Counter::Unlisted as usize] > 0;
        self.is_complete &= !has_unlisted && places <= self.places_left;
        if self.found.is_empty() || places > self.places_left {
            return;
        }
        self.places_left -= places;
        for entry in report.entries() {
            let Some(others) = self.found.get_mut(&(namespace, entry.local, entry.peer)) else {
                continue;
            };
            if others.len() < HOLDERS_MAX && self.holders_left > 0 {
                self.holders_left -= 1;
                others.push(Other { path: entry.path, shown: shown.cloned() });
            }
        }
    }

    /// A connection as people see it.
    pub fn entry_json(&self, namespace: Option<Namespace>, entry: &Entry) -> Value {
        let key = namespace.map(|namespace| (namespace, entry.peer, entry.local));
        let others = key.and_then(|key| self.found.get(&key)).map_or(&[][..], Vec::as_slice);
        let (path, own) = words(entry.path);
        let (reason, text) = match entry.path {
            Path::Direct | Path::Delegated => (own, String::new()),
            Path::Native(own) => self.explain(own, others),
        };
        json!({
            "fd": entry.fd,
            "local": entry.local.to_string(),
            "peer": entry.peer.to_string(),
            "path": path,
            "reason": format!("{reason:?}"),
            "reason_text": text,
            "accepted": entry.accepted,
            "received": entry.received,
            "sent": entry.sent,
            "peers": others.iter().map(Other::to_json).collect::<Vec<_>>(),
        })
    }

    /// Why a connection is native, as both ends together know it.
    fn explain(&self, own: Native, others: &[Other]) -> (Native, String) {
        if !own.is_of_other_end() {
            return (own, own.text().to_owned());
        }
        let reasons = || others.iter().filter_map(|other| other.path.reason());
        if let Some(cause) = reasons().find(|reason| !reason.is_of_other_end()) {
            return (own, format!("at the other end: {}", cause.text()));
        }
        let is_direct_there = others.iter().any(|other| other.path == Path::Direct);
        let text = match own {
            Native::NoOffer if others.is_empty() && self.is_complete => {
                return (Native::PeerNotOurs, Native::PeerNotOurs.text().to_owned());
            }
            Native::NoOffer if others.is_empty() => {
                "not known: the other end offered no direct stream, and not all connections are listed"
            }
            Native::NoOffer if is_direct_there => {
                "the other end offers a direct stream, which was not taken"
            }
            Native::NoOffer if reasons().any(|reason| reason == Native::NotAccepted) => {
                "the other end took its offer back before it was accepted"
            }
            Native::NoOffer | Native::PeerNotOurs if !others.is_empty() => {
                "the listening address was not registered when the other end connected"
            }
            own => own.text(),
        };
        (own, text.to_owned())
    }
}

impl Other {
    fn to_json(&self) -> Value {
        let (path, reason) = words(self.path);
        let mut told = self.shown.clone().unwrap_or_else(|| json!({}));
        told["path"] = json!(path);
        told["reason"] = json!(format!("{reason:?}"));
        told["reason_text"] = json!(if path == "native" { reason.text() } else { "" });
        told
    }
}

fn words(path: Path) -> (&'static str, Native) {
    match path {
        Path::Direct => ("direct", Native::None),
        Path::Delegated => ("delegated", Native::None),
        Path::Native(reason) => ("native", reason),
    }
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
