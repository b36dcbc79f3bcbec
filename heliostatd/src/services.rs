//! The services of the control plane: what each must be able to do, and the table of all.
//!
//! ```text
//! request --table of the protocol--> service: answer
//! a session ends, or is revoked  --> every service: end, revoke
//! the configuration is read      --> every service: set_limits
//! people ask                     --> every service: status, session_status, gauges, metrics, quotas
//! ```
//!
//! A service is a file or folder here, a line in [`TABLE`], and a field of [`Services`] if it keeps
//! something. What it decides, and why, lies in a pure crate in `service/`; what it does here is to
//! bring the kernel's facts in and to carry the effects out, before the answer is sent.

mod control;
#[cfg(test)]
mod echo;
pub mod file;
pub mod net;
pub mod snapshot;

use std::io;

use heliostat_abi::code::{Code, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::record::{Request, RequestKind, Row};
use heliostat_control::config::Config;
use heliostat_service_grant::Quota;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};

use crate::closer::Shown;
use crate::daemon::Daemon;
use crate::refused::Refused;
use crate::serve::Answer;

/// What people are told, by name.
pub type Told = Map<String, Value>;

/// Every service. A session's things end in this order.
const TABLE: &[&dyn Service] = &[
    &control::Control,
    &net::Streams,
    &snapshot::Snapshots,
    &file::Files,
    #[cfg(test)]
    &echo::Echo,
];

/// What the services keep.
pub struct Services {
    /// Streams.
    pub net: net::Channels,
    /// Versions of live memory.
    pub snapshot: snapshot::Regions,
    /// Leases and delegated operations.
    pub file: file::LeasedFiles,
}

impl Services {
    /// Services that know nobody yet.
    ///
    /// # Errors
    /// The kernel does not tell what one of them has to know.
    pub fn new(config: &Config) -> io::Result<Services> {
        Ok(Services {
            net: net::Channels::new(config),
            snapshot: snapshot::Regions::new(config),
            file: file::LeasedFiles::new(config)?,
        })
    }
}

/// A request, with as many descriptors as its kind brings.
pub struct Asked {
    /// The connection that asks; most requests are refused before it is a session.
    pub session: ObjectId,
    /// What it asks.
    pub request: Request,
    /// What it shows.
    pub fds: Vec<Shown>,
}

impl Asked {
    /// The descriptor of a request that brings one.
    fn only_descriptor(mut self) -> Result<Shown, Refused> {
        Ok(self.fds.pop().ok_or(Code::BadRecord)?)
    }
}

/// Who looks at the control plane's state.
#[derive(Clone, Copy)]
pub struct Viewer {
    /// The owner and root see everybody's.
    pub sees_all: bool,
    /// Others see their own user's.
    pub uid: Option<u32>,
}

impl Viewer {
    /// Whether what belongs to a user is shown.
    pub fn sees(self, uid: u32) -> bool {
        self.sees_all || Some(uid) == self.uid
    }
}

/// A service, as the daemon sees it. Nothing here may wait for a client.
pub trait Service: Sync {
    /// Its number in the protocol, see `record::Service`: the requests of that number come to it.
    fn number(&self) -> u16;

    /// The requests that it brings itself, by number: those that the protocol's table has not.
    fn own_requests(&self) -> &'static [(u16, Row)] {
        &[]
    }

    /// Answers a request.
    fn answer(&self, daemon: &mut Daemon, asked: Asked) -> Result<Answer, Refused>;

    /// Ends what a session holds; the session is gone.
    fn end(&self, _daemon: &mut Daemon, _session: ObjectId) {}

    /// Ends what the sessions hold, and gives them nothing new. Answers how much that was.
    fn revoke(&self, _daemon: &mut Daemon, _sessions: &[ObjectId]) -> usize {
        0
    }

    /// Takes new limits over, for what is asked from now on.
    fn set_limits(&self, _daemon: &mut Daemon, _config: &Config) {}

    /// Returns who has how much of what it grants.
    fn quotas<'a>(&self, _daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        Vec::new()
    }

    /// Adds its part of the whole state, for people.
    fn status(&self, _daemon: &Daemon, _viewer: Viewer, _told: &mut Told) {}

    /// Adds what a session holds of it, for people.
    fn session_status(&self, _daemon: &Daemon, _session: ObjectId, _told: &mut Told) {}

    /// Returns what is there now: name, help, value.
    fn gauges(&self, _daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }

    /// Adds its counters.
    fn metrics(&self, _daemon: &Daemon, _registry: &mut Registry) {}
}

/// Every service, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static dyn Service> {
    TABLE.iter().copied()
}

/// Every request that some service answers, by number.
pub fn rows() -> impl Iterator<Item = (u16, Row)> {
    let known = RequestKind::ALL.iter().map(|kind| (kind.number(), kind.row()));
    known.chain(all().flat_map(|service| service.own_requests().iter().cloned()))
}

/// What holds for a request; `None` when no service answers it.
pub fn row(request: &Request) -> Option<Row> {
    match request.kind() {
        Some(kind) => Some(kind.row()),
        None => rows().find(|(number, _)| *number == request.number()).map(|(_, row)| row),
    }
}

impl Daemon {
    /// Has the service answer whose request it is.
    pub(crate) fn answer_by_service(&mut self, asked: Asked) -> Result<Answer, Refused> {
        let number = match &asked.request {
            Request::Own(own) => own.service(),
            known => known.kind().ok_or(Code::BadRecord)?.service() as u16,
        };
        let service = all().find(|service| service.number() == number);
        service.ok_or(Code::Internal)?.answer(self, asked)
    }
}

/// The table of the protocol sends a request to a service that does not know it.
fn no_such_request() -> Result<Answer, Refused> {
    Err(Code::BadRecord.into())
}

#[cfg(test)]
mod tests {
    use heliostat_abi::record::{self, FIRST_OWN};

    use super::*;

    #[test]
    fn every_service_of_the_protocol_is_in_the_table_and_no_number_twice() {
        for number in record::Service::ALL.map(|service| service as u16) {
            assert_eq!(all().filter(|service| service.number() == number).count(), 1);
        }
        let numbers: std::collections::HashSet<_> = all().map(Service::number).collect();
        assert_eq!(numbers.len(), all().count());
    }

    #[test]
    fn own_requests_lie_in_the_range_of_their_service() {
        for service in all() {
            for (number, row) in service.own_requests() {
                assert!(*number >= FIRST_OWN && number >> 8 == service.number(), "{}", row.name);
                assert!(number & 0xff < 128, "{} has the number of a reply", row.name);
            }
        }
    }
}
