//! Connections that were handed to somebody who may not ask everything.
//!
//! ```text
//! open --Allow, AllowRegions--> open (more of them) --Restrict--> closed: nothing widens it, for good
//! ```
//! A supervisor connects on behalf of a program that it keeps sealed, allows and restricts, and
//! only then hands the socket over; the program greets on it as any other. Nothing here looks at
//! the greeting: what a restricted connection may ask does not depend on whether it has greeted.

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::limits::{DESTINATIONS_MAX, REGION_SCOPES_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request, Row};
use heliostat_abi::session::restriction::{Destination, Services};
use heliostat_abi::snapshot::region_scope::RegionScope;
use heliostat_base::clock::monotonic_ns;
use tracing::debug;

use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::{full, full_of, Refused};
use crate::shares::sealed_rate;
use crate::state::restriction::Restriction;

impl Daemon {
    /// Whether a session may not ask everything; so is one that is gone.
    pub(crate) fn is_restricted(&self, id: ObjectId) -> bool {
        self.connections.get(id).is_none_or(|connection| connection.is_restricted())
    }

    /// Refuses what the connection may not ask.
    pub(crate) fn check_restriction(
        &mut self,
        id: ObjectId,
        request: &Request,
        row: &Row,
    ) -> Result<(), Refused> {
        let connection = self.connections.get(id).ok_or(Code::Internal)?;
        let uid = connection.peer.subject.uid;
        if connection.restriction.permits(request, row.asker, uid) {
            return Ok(());
        }
        debug!(session = %id, pid = connection.pid(), ?request, "a restricted session may not ask it");
        self.denials.note_restricted(uid, row.name);
        Err(Code::Denied.into())
    }

    /// Adds a destination to a restriction that is not closed yet.
    pub(crate) fn allow(&mut self, id: ObjectId, to: Destination) -> Result<Answer, Refused> {
        if !self.unrestricted(id)?.allow(to) {
            let limit = DESTINATIONS_MAX as u64;
            return Err(full_of(Thing::Destinations, Side::Session, limit));
        }
        Ok(Reply::Done.into())
    }

    /// Adds regions to a restriction that is not closed yet.
    pub(crate) fn allow_regions(
        &mut self,
        id: ObjectId,
        scope: RegionScope,
    ) -> Result<Answer, Refused> {
        if !self.unrestricted(id)?.allow_regions(scope) {
            let limit = REGION_SCOPES_MAX as u64;
            return Err(full_of(Thing::RegionScopes, Side::Session, limit));
        }
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
        self.unrestricted(id)?.close(services, pid);
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
