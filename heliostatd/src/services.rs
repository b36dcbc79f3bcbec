//! The services of the control plane, and the table of all.
//!
//! ```text
//! request --table of the protocol--> service: answer
//! a session ends, or is revoked  --> every service: end, revoke
//! the configuration is read      --> every service: set_limits
//! people ask                     --> every service: status, session_status, gauges, metrics, quotas
//! ```
//!
//! A service is a file or folder here, a line in [`TABLE`], and a field of `state::Services` if it
//! keeps something. What it decides, and why, lies in a pure crate in `service/`; what it does here is
//! to bring the kernel's facts in and to carry the effects out, before the answer is sent.

pub(crate) mod cluster;
mod control;
mod cores;
#[cfg(test)]
mod echo;
mod file;
mod listener;
mod lock;
mod memory;
mod net;
mod network;
mod replica;
mod rpc;
mod snapshot;
mod socket;
mod store;

use heliostat_abi::code::Code;
use heliostat_abi::session::record::{OwnRequest, Request};
use heliostat_abi::wire::WireError;
use tracing::debug;

use crate::answer::Answer;
use crate::daemon::{Asked, Table};
use crate::refused::Refused;

/// Every service. They begin, and a session's things end, in this order.
pub const TABLE: Table = &[
    &control::Control,
    &net::Streams,
    &snapshot::Snapshots,
    &file::Files,
    &cluster::ClusterMembers,
    &memory::MemoryRegions,
    &lock::NamedLocks,
    &rpc::RemoteCalls,
    &replica::MemoryReplicas,
    &store::StoredAreas,
    &socket::SocketOperations,
    &cores::MachineCores,
    &network::NetworkStreams,
    &listener::PortSharing,
    #[cfg(test)]
    &echo::Echo,
];

/// Sessions named for one port or lease: a text costs everybody the time that it takes.
const SHARERS_LISTED: usize = 128;

/// Who shares a port or a lease: any number of sessions may, of which so many are named.
fn listed<T>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.take(SHARERS_LISTED).collect()
}

/// The request of a service's own that was asked. `whose` names the service in the log.
///
/// # Errors
/// It is another's, or its body is malformed.
fn own_request<T>(
    asked: &Asked,
    whose: &str,
    decode: impl Fn(&OwnRequest) -> Result<T, WireError>,
) -> Result<T, Refused> {
    let Request::Own(own) = &asked.request else { return Err(Code::BadRecord.into()) };
    decode(own).map_err(|error| {
        debug!(session = %asked.session, %error, "a malformed request of {whose}");
        Code::BadRecord.into()
    })
}

/// The table of the protocol sends a request to a service that does not know it.
fn no_such_request() -> Result<Answer, Refused> {
    Err(Code::BadRecord.into())
}

#[cfg(test)]
mod tests {
    use heliostat_abi::session::record::{self, FIRST_OWN};

    use super::*;

    #[test]
    fn every_service_of_the_protocol_is_in_the_table_and_no_number_twice() {
        for number in record::Service::ALL.map(|service| service as u16) {
            assert_eq!(TABLE.iter().filter(|service| service.number() == number).count(), 1);
        }
        let numbers: std::collections::HashSet<_> =
            TABLE.iter().map(|service| service.number()).collect();
        assert_eq!(numbers.len(), TABLE.len());
    }

    #[test]
    fn own_requests_lie_in_the_range_of_their_service() {
        for service in TABLE {
            for (number, row) in service.own_requests() {
                assert!(*number >= FIRST_OWN && number >> 8 == service.number(), "{}", row.name);
                assert!(number & 0xff < 128, "{} has the number of a reply", row.name);
            }
        }
    }
}
