//! Connections that were handed to somebody who may not ask everything.
//!
//! ```text
//! open --Allow--> open (more destinations) --Restrict--> closed: nothing widens it, for good
//! ```
//! A supervisor connects on behalf of a program that it keeps sealed, allows and restricts, and
//! only then hands the socket over; the program greets on it as any other. Nothing here looks at
//! the greeting: what a restricted connection may ask does not depend on whether it has greeted.

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::limits::DESTINATIONS_MAX;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::record::{Asker, Reply, Request, Row};
use heliostat_abi::restriction::{Destination, Services};
use heliostat_base::clock::monotonic_ns;
use tracing::debug;

use crate::connect::Connection;
use crate::daemon::Daemon;
use crate::quotas::{full, full_of, sealed_rate};
use crate::refused::Refused;
use crate::serve::Answer;

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
    fn permits(&self, request: &Request, asker: Asker) -> bool {
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
}

impl Connection {
    /// The process at the other end, for people: of a restricted connection the one that it was
    /// handed to, as whoever restricted it said.
    pub fn pid(&self) -> u32 {
        self.restriction.closed.as_ref().map_or(self.peer.pid, |closed| closed.pid)
    }

    /// True once it may not ask everything any more.
    pub fn is_restricted(&self) -> bool {
        self.restriction.closed.is_some()
    }
}

impl Daemon {
    /// Refuses what the connection may not ask.
    pub(crate) fn check_restriction(
        &mut self,
        id: ObjectId,
        request: &Request,
        row: &Row,
    ) -> Result<(), Refused> {
        let connection = self.connections.get(id).ok_or(Code::Internal)?;
        if connection.restriction.permits(request, row.asker) {
            return Ok(());
        }
        debug!(session = %id, pid = connection.pid(), ?request, "a restricted session may not ask it");
        let uid = connection.peer.subject.uid;
        self.denials.note_restricted(uid, row.name);
        Err(Code::Denied.into())
    }

    /// Adds a destination to a restriction that is not closed yet.
    pub(crate) fn allow(&mut self, id: ObjectId, to: Destination) -> Result<Answer, Refused> {
        let restriction = self.unrestricted(id)?;
        if restriction.destinations.len() >= DESTINATIONS_MAX {
            let limit = DESTINATIONS_MAX as u64;
            return Err(full_of(Thing::Destinations, Side::Session, limit));
        }
        restriction.destinations.push(to);
        Ok(Reply::Done.into())
    }

    /// Closes a restriction. From now on what the connection has counts against the share of the
    /// program that it is handed to: known by the process that keeps it, which made the connection.
    pub(crate) fn restrict(
        &mut self,
        id: ObjectId,
        services: Services,
        pid: u32,
    ) -> Result<Answer, Refused> {
        self.unrestricted(id)?;
        let keeper = self.connections.get(id).map_or(0, |connection| connection.peer.pid);
        let holder = self.holder(id)?;
        let sealed = holder.sealed_by(keeper);
        if !self.sealed_connects.take(sealed, monotonic_ns()) {
            // Its user has not come too often: the program has.
            self.connects.give_back(holder.uid);
            return Err(self.too_fast(Side::SealedProgram, sealed_rate(&self.parts.config)));
        }
        self.connections.hand_over(id, sealed).map_err(|it| full(Thing::Connections, it))?;
        self.unrestricted(id)?.closed = Some(Closed { services, pid });
        debug!(connection = %id, pid, ?services, "restricted");
        Ok(Reply::Done.into())
    }

    /// The restriction of a connection that has not greeted: later it would come too late.
    fn unrestricted(&mut self, id: ObjectId) -> Result<&mut Restriction, Refused> {
        let connection = self.connections.get_mut(id).ok_or(Code::Internal)?;
        match connection.session {
            None => Ok(&mut connection.restriction),
            Some(_) => Err(Code::BadState.into()),
        }
    }
}
