//! The service's state, its limits, and where its parts meet.

use std::collections::{BTreeMap, HashMap};

use heliostat_abi::code::Thing;
use heliostat_abi::lock::limits::{HANDLES_MAX, LOCKS_MAX, TICKETS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Grants, Limit, Quota, QuotaTable, Revoked, Shares};

use crate::key::Key;
use crate::object::Object;
use crate::refusal::{Reason, Refusal};
use crate::ticket::Ticket;

/// How much of everything there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Locks, semaphores and barriers.
    pub locks: Shares,
    /// Handles of one session.
    pub handles_per_session: usize,
    /// Handles.
    pub handles: Shares,
    /// Tickets of one session: what it holds and waits for.
    pub tickets_per_session: usize,
    /// Tickets.
    pub tickets: Shares,
}

/// What has to be done for what was decided.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Effect {
    /// There is something that the session has not been told.
    Ring(ObjectId),
}

/// A handle: what it is on.
pub(crate) type Handle = ObjectId;

/// Every lock, semaphore and barrier, and who has to do with it.
#[derive(Clone, Debug)]
pub struct Locks {
    pub(crate) objects: QuotaTable<Object>,
    pub(crate) names: HashMap<Key, ObjectId>,
    pub(crate) handles: Grants<Handle>,
    pub(crate) tickets: Grants<Ticket>,
    /// What each session has not been told, in order of place.
    pub(crate) news: HashMap<ObjectId, BTreeMap<u64, ObjectId>>,
    pub(crate) revoked: Revoked,
    pub(crate) next_token: u64,
    pub(crate) next_place: u64,
    pub(crate) deaths: u64,
}

impl Locks {
    /// There are none yet. Tokens begin with `first_token`, which has to lie above those of an earlier
    /// run of the control plane.
    pub fn new(limits: Limits, first_token: u64) -> Locks {
        let handles = Limit { per_session: limits.handles_per_session, shares: limits.handles };
        let tickets = Limit { per_session: limits.tickets_per_session, shares: limits.tickets };
        Locks {
            objects: QuotaTable::new(LOCKS_MAX, limits.locks),
            names: HashMap::new(),
            handles: Grants::new(Thing::LockHandles, HANDLES_MAX, handles),
            tickets: Grants::new(Thing::LockTickets, TICKETS_MAX, tickets),
            news: HashMap::new(),
            revoked: Revoked::default(),
            next_token: first_token.max(1),
            next_place: 0,
            deaths: 0,
        }
    }

    /// Takes new limits over, for what is asked from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.objects.set_shares(limits.locks);
        let handles = Limit { per_session: limits.handles_per_session, shares: limits.handles };
        self.handles.set_limit(handles);
        let tickets = Limit { per_session: limits.tickets_per_session, shares: limits.tickets };
        self.tickets.set_limit(tickets);
    }

    /// Who has how many of everything.
    pub fn quotas(&self) -> [(Thing, &Quota); 3] {
        [(Thing::Locks, self.objects.quota()), self.handles.quota(), self.tickets.quota()]
    }

    /// The lock of a session's handle.
    pub(crate) fn object_of(
        &self,
        session: ObjectId,
        handle: ObjectId,
    ) -> Result<ObjectId, Refusal> {
        self.revoked.check(session)?;
        let held = self.handles.held(session, handle);
        held.map(|(object, ())| *object).ok_or(Reason::NoHandle { handle }.into())
    }

    /// Whether a session has such a ticket.
    pub(crate) fn check_ticket(&self, session: ObjectId, ticket: ObjectId) -> Result<(), Refusal> {
        self.revoked.check(session)?;
        self.tickets.has(session, ticket).then_some(()).ok_or(Reason::NoTicket { ticket }.into())
    }

    /// A place behind all others.
    pub(crate) fn new_place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }
}
