//! What this node's sessions have of locks on other nodes: the node where a name is decides, and here
//! stands what it has said to whom, so that its news find their session and nothing outlives its link.
//!
//! ```text
//! Open --> handle there, and a name for it here
//! Acquire, Arrive --> ticket there: Waiting --news--> Held, Over --told--> as a local one's
//!                                      '-- the node is lost --> Over (lost)
//! ```

use std::collections::{BTreeMap, HashMap};

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::lock::limits::{EVENTS_PER_REPLY_MAX, REMOTE_HANDLES_MAX, REMOTE_TICKETS_MAX};
use heliostat_abi::lock::peer::{elsewhere, place_elsewhere};
use heliostat_abi::lock::{Event, Kind, Outcome};
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use heliostat_service_grant::{Full, Holder, Quota, Shares, Via};

use crate::view::Holding;

/// A handle on a lock of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteHandle {
    /// Where.
    pub via: Via,
    /// Its name there.
    pub there: ObjectId,
    /// What it is on.
    pub kind: Kind,
    /// The node was lost.
    pub is_lost: bool,
}

/// How a ticket at another node stands, as far as is known here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It waits.
    Waits,
    /// The node is asked to cancel it; perhaps how it ended before that.
    Cancelled(Option<Outcome>),
    /// It holds: the outcome with its token.
    Holds(Outcome),
    /// It is over, which its session has not been told.
    Over(Outcome),
    /// It held, and the node was lost.
    Lost,
}

/// A ticket at another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteTicket {
    /// Where.
    pub via: Via,
    /// Its name there.
    pub there: ObjectId,
    /// By which handle, by the session's name for it.
    pub handle: ObjectId,
    /// Of what.
    pub kind: Kind,
    /// How it stands.
    pub standing: Standing,
    /// Its place among what its session has not been told.
    untold: Option<u64>,
}

#[derive(Clone, Debug)]
struct Has {
    holder: Holder,
    handles: Table<RemoteHandle>,
    tickets: Table<RemoteTicket>,
    /// Tickets that it has not been told of, in order.
    news: BTreeMap<u64, ObjectId>,
}

impl Has {
    fn new(holder: Holder) -> Has {
        let (handles, tickets) = (Table::lean(REMOTE_HANDLES_MAX), Table::lean(REMOTE_TICKETS_MAX));
        Has { holder, handles, tickets, news: BTreeMap::new() }
    }

    fn holding(&self) -> Holding {
        let mut holding = Holding { handles: self.handles.len(), ..Holding::default() };
        for (_, ticket) in self.tickets.iter() {
            match ticket.standing {
                Standing::Waits | Standing::Cancelled(_) => holding.waiting += 1,
                Standing::Holds(_) => holding.held += 1,
                Standing::Over(_) | Standing::Lost => {}
            }
        }
        holding
    }
}

/// All of it.
#[derive(Clone, Debug)]
pub struct RemoteLocks {
    sessions: HashMap<ObjectId, Has>,
    /// Tickets by what a node calls them: session and place.
    named: HashMap<(u64, ObjectId), (ObjectId, ObjectId)>,
    handles: Quota,
    tickets: Quota,
    next_place: u64,
}

impl RemoteLocks {
    /// None yet; so many handles and tickets of one user.
    pub fn new(handles: Shares, tickets: Shares) -> RemoteLocks {
        RemoteLocks {
            sessions: HashMap::new(),
            named: HashMap::new(),
            handles: Quota::new(handles),
            tickets: Quota::new(tickets),
            next_place: 0,
        }
    }

    /// New limits for what is asked from now on.
    pub fn set_shares(&mut self, handles: Shares, tickets: Shares) {
        self.handles.set_shares(handles);
        self.tickets.set_shares(tickets);
    }

    /// Refuses one more handle.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn check_handle(&self, session: ObjectId, holder: Holder) -> Result<(), Full> {
        let has = self.sessions.get(&session).map_or(0, |has| has.handles.len());
        if has >= REMOTE_HANDLES_MAX {
            return Err(Full::of(Thing::LockHandles, Side::Session, REMOTE_HANDLES_MAX as u64));
        }
        self.handles.check(holder, 1).map_err(|it| Full::shared(Thing::LockHandles, it))
    }

    /// Refuses one more ticket.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn check_ticket(&self, session: ObjectId, holder: Holder) -> Result<(), Full> {
        let has = self.sessions.get(&session).map_or(0, |has| has.tickets.len());
        if has >= REMOTE_TICKETS_MAX {
            return Err(Full::of(Thing::LockTickets, Side::Session, REMOTE_TICKETS_MAX as u64));
        }
        self.tickets.check(holder, 1).map_err(|it| Full::shared(Thing::LockTickets, it))
    }

    /// Takes a handle in that a node has granted; the session's name for it.
    ///
    /// # Errors
    /// As `check_handle`; then the node is to be told that it is given back.
    pub fn add_handle(
        &mut self,
        session: ObjectId,
        holder: Holder,
        handle: RemoteHandle,
    ) -> Result<ObjectId, Full> {
        self.check_handle(session, holder)?;
        let has = self.sessions.entry(session).or_insert_with(|| Has::new(holder));
        let full = |_| Full::of(Thing::LockHandles, Side::Session, REMOTE_HANDLES_MAX as u64);
        let place = has.handles.insert(handle).map_err(full)?;
        self.handles.take_anyway(has.holder, 1);
        Ok(elsewhere(place))
    }

    /// A handle, by the session's name for it.
    pub fn handle(&self, session: ObjectId, handle: ObjectId) -> Option<&RemoteHandle> {
        self.sessions.get(&session)?.handles.get(place_elsewhere(handle)?)
    }

    /// Takes a handle out, and the tickets by it: what its node is told ends them there.
    pub fn remove_handle(&mut self, session: ObjectId, handle: ObjectId) -> Option<RemoteHandle> {
        let has = self.sessions.get_mut(&session)?;
        let removed = has.handles.remove(place_elsewhere(handle)?)?;
        self.handles.give_back(has.holder, 1);
        let its = has.tickets.iter().filter(|(_, ticket)| ticket.handle == handle);
        let its: Vec<_> = its.map(|(place, _)| elsewhere(place)).collect();
        for ticket in its {
            self.remove_ticket(session, ticket);
        }
        self.forget_if_empty(session);
        Some(removed)
    }

    /// Takes a ticket in that a node has given; the session's name for it. `None` for one that it has
    /// given before, which no honest node does.
    ///
    /// # Errors
    /// As `check_ticket`; then the node is to be told that it is given back.
    pub fn add_ticket(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        there: ObjectId,
        standing: Standing,
    ) -> Result<Option<ObjectId>, Full> {
        let Some(of) = self.handle(session, handle).copied() else { return Ok(None) };
        let Some(has) = self.sessions.get(&session) else { return Ok(None) };
        if self.named.contains_key(&(of.via.link, there)) {
            return Ok(None);
        }
        self.check_ticket(session, has.holder)?;
        let ticket =
            RemoteTicket { via: of.via, there, handle, kind: of.kind, standing, untold: None };
        let Some(has) = self.sessions.get_mut(&session) else { return Ok(None) };
        let full = |_| Full::of(Thing::LockTickets, Side::Session, REMOTE_TICKETS_MAX as u64);
        let place = has.tickets.insert(ticket).map_err(full)?;
        self.tickets.take_anyway(has.holder, 1);
        self.named.insert((of.via.link, there), (session, place));
        Ok(Some(elsewhere(place)))
    }

    /// A ticket, by the session's name for it.
    pub fn ticket(&self, session: ObjectId, ticket: ObjectId) -> Option<&RemoteTicket> {
        self.sessions.get(&session)?.tickets.get(place_elsewhere(ticket)?)
    }

    /// Changes how a ticket stands. Its session need not be told.
    pub fn set(&mut self, session: ObjectId, ticket: ObjectId, standing: Standing) {
        let Some(has) = self.sessions.get_mut(&session) else { return };
        let found = place_elsewhere(ticket).and_then(|place| has.tickets.get_mut(place));
        let Some(found) = found else { return };
        found.standing = standing;
        if let Some(place) = found.untold.take() {
            has.news.remove(&place);
        }
    }

    /// Takes a ticket out.
    pub fn remove_ticket(&mut self, session: ObjectId, ticket: ObjectId) -> Option<RemoteTicket> {
        let has = self.sessions.get_mut(&session)?;
        let removed = has.tickets.remove(place_elsewhere(ticket)?)?;
        if let Some(place) = removed.untold {
            has.news.remove(&place);
        }
        self.tickets.give_back(has.holder, 1);
        self.named.remove(&(removed.via.link, removed.there));
        self.forget_if_empty(session);
        Some(removed)
    }

    /// Takes in what a node says of a ticket there. Returns the session, if it is to be rung. What does
    /// not fit how the ticket stands, which an honest node does not say, changes nothing.
    pub fn hear(&mut self, link: u64, there: ObjectId, outcome: Outcome) -> Option<ObjectId> {
        let (session, place) = self.named.get(&(link, there)).copied()?;
        let ticket = self.sessions.get_mut(&session)?.tickets.get_mut(place)?;
        if !fits(ticket.kind, outcome) {
            return None;
        }
        match ticket.standing {
            Standing::Waits => {}
            Standing::Cancelled(_) => {
                ticket.standing = Standing::Cancelled(Some(outcome));
                return None;
            }
            _ => return None,
        }
        let holds = matches!(outcome, Outcome::Granted { .. });
        ticket.standing = if holds { Standing::Holds(outcome) } else { Standing::Over(outcome) };
        self.tell(session, place);
        Some(session)
    }

    /// Whether a node's ticket is known.
    pub fn knows(&self, link: u64, there: ObjectId) -> bool {
        self.named.contains_key(&(link, there))
    }

    fn tell(&mut self, session: ObjectId, place: ObjectId) {
        self.next_place += 1;
        let Some(has) = self.sessions.get_mut(&session) else { return };
        let Some(ticket) = has.tickets.get_mut(place) else { return };
        ticket.untold = Some(self.next_place);
        has.news.insert(self.next_place, place);
    }

    /// Some of what a session has not been told, the oldest first, and whether there is more.
    pub fn next(&mut self, session: ObjectId, room: usize) -> (Vec<Event>, bool) {
        let Some(has) = self.sessions.get(&session) else { return (Vec::new(), false) };
        let count = room.min(EVENTS_PER_REPLY_MAX);
        let places: Vec<_> = has.news.values().take(count).copied().collect();
        let told = places.into_iter().filter_map(|place| self.told(session, elsewhere(place)));
        let events = told.collect();
        (events, self.has_news(session))
    }

    /// Whether there is something that a session has not been told.
    pub fn has_news(&self, session: ObjectId) -> bool {
        self.sessions.get(&session).is_some_and(|has| !has.news.is_empty())
    }

    /// How a ticket stands; its session is told now. One that is over is gone with that.
    pub fn told(&mut self, session: ObjectId, ticket: ObjectId) -> Option<Event> {
        let found = *self.ticket(session, ticket)?;
        let outcome = match found.standing {
            Standing::Waits | Standing::Cancelled(_) => Outcome::Queued,
            Standing::Holds(outcome) => {
                self.set(session, ticket, found.standing);
                outcome
            }
            Standing::Over(outcome) => {
                self.remove_ticket(session, ticket);
                outcome
            }
            Standing::Lost => Outcome::Lost { node: found.via.node },
        };
        Some(Event { ticket, outcome })
    }

    /// A session has ended. Returns where it had something.
    pub fn end(&mut self, session: ObjectId) -> Vec<Via> {
        let Some(has) = self.sessions.remove(&session) else { return Vec::new() };
        self.handles.give_back(has.holder, has.handles.len() as u64);
        self.tickets.give_back(has.holder, has.tickets.len() as u64);
        for (_, ticket) in has.tickets.iter() {
            self.named.remove(&(ticket.via.link, ticket.there));
        }
        let standing = has.handles.iter().filter(|(_, handle)| !handle.is_lost);
        let mut all: Vec<_> = standing.map(|(_, handle)| handle.via).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// A link is lost, for one session or for all: what was granted by it leads nowhere. Returns whom
    /// to ring.
    pub fn lose(&mut self, via: Via, of: Option<ObjectId>) -> Vec<ObjectId> {
        let (mut rung, mut told, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        let all = self.sessions.iter_mut().filter(|(id, _)| of.is_none_or(|of| of == **id));
        for (session, has) in all {
            let handles = has.handles.iter_mut().filter(|(_, handle)| handle.via == via);
            handles.for_each(|(_, handle)| handle.is_lost = true);
            for (place, ticket) in has.tickets.iter_mut().filter(|(_, ticket)| ticket.via == via) {
                self.named.remove(&(via.link, ticket.there));
                match ticket.standing {
                    Standing::Waits => {
                        ticket.standing = Standing::Over(Outcome::Lost { node: via.node });
                        told.push((*session, place));
                    }
                    // Told or not: nobody holds it any more.
                    Standing::Holds(_) if ticket.untold.is_some() => {
                        ticket.standing = Standing::Over(Outcome::Lost { node: via.node });
                    }
                    Standing::Holds(_) => ticket.standing = Standing::Lost,
                    // Who has cancelled is told by the call that nobody answers.
                    Standing::Cancelled(_) => gone.push((*session, elsewhere(place))),
                    Standing::Over(_) | Standing::Lost => {}
                }
            }
        }
        for (session, place) in told {
            self.tell(session, place);
            rung.push(session);
        }
        for (session, ticket) in gone {
            self.remove_ticket(session, ticket);
        }
        rung.dedup();
        rung
    }

    /// What a session has on other nodes.
    pub fn holding(&self, session: ObjectId) -> Holding {
        self.sessions.get(&session).map_or(Holding::default(), Has::holding)
    }

    /// What all have there.
    pub fn counts(&self) -> Holding {
        self.sessions.values().map(Has::holding).fold(Holding::default(), |all, one| Holding {
            handles: all.handles + one.handles,
            held: all.held + one.held,
            waiting: all.waiting + one.waiting,
        })
    }

    fn forget_if_empty(&mut self, session: ObjectId) {
        let is_empty = |has: &Has| has.handles.is_empty() && has.tickets.is_empty();
        if self.sessions.get(&session).is_some_and(is_empty) {
            self.sessions.remove(&session);
        }
    }
}

/// Whether a ticket of something of this kind ends so, or begins to hold.
pub fn fits(kind: Kind, outcome: Outcome) -> bool {
    match outcome {
        Outcome::Granted { .. } => kind != Kind::Barrier,
        Outcome::Passed { .. } | Outcome::Broken { .. } => kind == Kind::Barrier,
        Outcome::Busy | Outcome::Queued | Outcome::Lost { .. } => false,
    }
}
