//! What a connection may not ask that was handed to somebody.
//!
//! ```text
//! open --Allow, AllowRegions--> open (more of them) --Restrict--> closed: nothing widens it, for good
//! ```

use heliostat_abi::limits::{DESTINATIONS_MAX, REGION_SCOPES_MAX};
use heliostat_abi::name::NetAddress;
use heliostat_abi::needs::Need;
use heliostat_abi::session::record::{Asker, Request};
use heliostat_abi::session::restriction::{Destination, Services};
use heliostat_abi::snapshot::region::{RegionName, OWN_USER};
use heliostat_abi::snapshot::region_scope::{RegionRight, RegionScope};

/// What a connection may not ask. The default forbids nothing.
#[derive(Default)]
pub struct Restriction {
    /// Where its streams may lead, once it is closed.
    destinations: Vec<Destination>,
    /// Which regions, locks and functions it may use, and how.
    regions: Vec<RegionScope>,
    /// Set when it is closed.
    closed: Option<Closed>,
}

struct Closed {
    services: Services,
    pid: u32,
}

impl Restriction {
    /// Whether a request may be asked by a session of user `own`.
    pub fn permits(&self, request: &Request, asker: Asker, own: u32) -> bool {
        let Some(closed) = &self.closed else { return true };
        let is_served = match asker {
            Asker::Any => true,
            // Ports, leases, files and regions are those that this session has itself shown a
            // descriptor for; of the rest each service looks whose they are.
            Asker::With(services) => closed.services.have(services),
            Asker::Unrestricted => false,
        };
        let leads_to = |address: &NetAddress| self.destinations.iter().any(|it| it.has(*address));
        let has_region = |right, name: &RegionName, owner| {
            let owner = if owner == OWN_USER { own } else { owner };
            self.regions.iter().any(|it| it.has(right, name, owner, own))
        };
        match request {
            Request::Open { address } => is_served && leads_to(address),
            Request::Publish { name } => {
                is_served && has_region(RegionRight::Publish, name, OWN_USER)
            }
            Request::AttachRegion { name, owner } => {
                is_served && has_region(RegionRight::Attach, name, *owner)
            }
            Request::Own(own) if is_served => {
                // What no service knows is refused by it.
                Need::of(own).is_none_or(|Need { right, name, owner }| {
                    name.is_some_and(|name| has_region(right, &name, owner))
                })
            }
            _ => is_served,
        }
    }

    /// Adds a destination; false when there are as many as there may be.
    pub fn allow(&mut self, to: Destination) -> bool {
        let is_room = self.destinations.len() < DESTINATIONS_MAX;
        if is_room {
            self.destinations.push(to);
        }
        is_room
    }

    /// Adds regions; false when there are as many scopes as there may be.
    pub fn allow_regions(&mut self, scope: RegionScope) -> bool {
        let is_room = self.regions.len() < REGION_SCOPES_MAX;
        if is_room {
            self.regions.push(scope);
        }
        is_room
    }

    /// Closes it, for the process that the connection is handed to.
    pub fn close(&mut self, services: Services, pid: u32) {
        self.closed = Some(Closed { services, pid });
    }

    /// The process that the connection was handed to, once it is closed.
    pub fn handed_to(&self) -> Option<u32> {
        self.closed.as_ref().map(|closed| closed.pid)
    }
}
