//! What a connection may not ask that was handed to somebody.
//!
//! ```text
//! open --Allow--> open (more destinations) --Restrict--> closed: nothing widens it, for good
//! ```

use heliostat_abi::limits::DESTINATIONS_MAX;
use heliostat_abi::name::NetAddress;
use heliostat_abi::record::{Asker, Request};
use heliostat_abi::restriction::{Destination, Services};

/// What a connection may not ask. The default forbids nothing.
#[derive(Default)]
pub struct Restriction {
    /// Where its streams may lead, once it is closed.
    destinations: Vec<Destination>,
    /// Set when it is closed.
    closed: Option<Closed>,
}

struct Closed {
    services: Services,
    pid: u32,
}

impl Restriction {
    /// Whether a request may be asked.
    pub fn permits(&self, request: &Request, asker: Asker) -> bool {
        let Some(closed) = &self.closed else { return true };
        let is_served = match asker {
            Asker::Any => true,
            // Ports and leases are those that this session has itself shown a descriptor for.
            Asker::With(services) => closed.services.have(services),
            Asker::Unrestricted => false,
        };
        let leads_to = |address: &NetAddress| self.destinations.iter().any(|it| it.has(*address));
        match request {
            Request::Open { address } => is_served && leads_to(address),
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

    /// Closes it, for the process that the connection is handed to.
    pub fn close(&mut self, services: Services, pid: u32) {
        self.closed = Some(Closed { services, pid });
    }

    /// The process that the connection was handed to, once it is closed.
    pub fn handed_to(&self) -> Option<u32> {
        self.closed.as_ref().map(|closed| closed.pid)
    }
}
