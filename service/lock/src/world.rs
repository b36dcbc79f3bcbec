//! The world beside the service, for the tests of its properties: what each session believes.
//!
//! It knows what each session has acquired, by what it was answered and told, and in which order claims
//! came. After every step that is compared with what the service has.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use heliostat_abi::lock::{Claim, Event, Kind, LockName, Outcome};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Holder, Shares};

use crate::object::Object;
use crate::steps::{shape, Step};
use crate::ticket::State;
use crate::*;

const LIMITS: Limits = Limits {
    locks: Shares::whole(5),
    handles_per_session: 5,
    handles: Shares::whole(30),
    tickets_per_session: 6,
    tickets: Shares { user: 20, ..Shares::whole(30) },
};

/// A ticket that was given and has not ended, as its session knows it.
#[derive(Clone, Copy, Debug)]
struct Known {
    session: ObjectId,
    name: u32,
    amount: u64,
    /// It was told that it holds.
    holds: bool,
}

impl Known {
    /// Whether it may change what the lock protects.
    fn writes(&self) -> bool {
        shape(self.name).kind != Kind::ReaderWriter || self.amount > 1
    }
}

/// Which name an object has.
fn number(object: &Object) -> u32 {
    object.key.name.as_str()[1..].parse().unwrap()
}

/// The world.
pub(crate) struct World {
    pub(crate) service: Locks,
    generations: HashMap<u32, u32>,
    revoked: HashSet<ObjectId>,
    handles: HashMap<ObjectId, Vec<(ObjectId, u32)>>,
    tickets: BTreeMap<ObjectId, Known>,
    /// Tickets that wait, in the order in which they came, for each name.
    lines: HashMap<u32, VecDeque<ObjectId>>,
    /// Sessions that were rung and have not looked until there was nothing.
    rung: HashSet<ObjectId>,
    /// Names of which a holder has died that knew so, and nobody has put that right who knew so.
    doubtful: HashSet<u32>,
    pub(crate) last_token: u64,
}

impl World {
    pub(crate) fn new() -> World {
        World {
            service: Locks::new(LIMITS, 1),
            generations: HashMap::new(),
            revoked: HashSet::new(),
            handles: HashMap::new(),
            tickets: BTreeMap::new(),
            lines: HashMap::new(),
            rung: HashSet::new(),
            doubtful: HashSet::new(),
            last_token: 0,
        }
    }

    pub(crate) fn asker(&self, index: u32) -> Asker {
        let generation = self.generations.get(&index).copied().unwrap_or(1);
        let session = ObjectId { index, generation };
        Asker { session, holder: Holder::user(index / 4) }
    }

    pub(crate) fn take(&mut self, step: Step) {
        let mut effects = Vec::new();
        match step {
            Step::Open { session, name } => self.open(session, name),
            Step::Close { session, which } => {
                let Some((handle, name)) = self.handle(session, which) else { return };
                let id = self.asker(session).session;
                self.service.close(id, handle, &mut effects).unwrap();
                self.handles.get_mut(&id).unwrap().retain(|(other, _)| *other != handle);
                self.forget(|known| known.session == id && known.name == name);
            }
            Step::Acquire { session, which, shared, permits, wait } => {
                self.acquire(session, which, (shared, permits), wait);
            }
            Step::Arrive { session, which } => self.arrive(session, which, &mut effects),
            Step::Release { session, which, untouched } => {
                self.release((session, which), untouched, &mut effects);
            }
            Step::Cancel { session, which } => self.cancel(session, which, &mut effects),
            Step::Reset { session, which } => {
                let Some((handle, name)) = self.handle(session, which) else { return };
                let id = self.asker(session).session;
                let done = self.service.reset(id, handle, &mut effects);
                assert_eq!(done.is_ok(), shape(name).kind == Kind::Barrier);
            }
            Step::Next { session } => self.next(session),
            Step::End { session } => {
                let id = self.asker(session).session;
                self.service.end(id, &mut effects);
                self.lose(id);
                self.revoked.remove(&id);
                *self.generations.entry(session).or_insert(1) += 1;
            }
            Step::Revoke { session } => {
                let id = self.asker(session).session;
                self.service.revoke(&[id], &mut effects);
                self.lose(id);
                self.revoked.insert(id);
            }
        }
        self.rung.extend(effects.into_iter().map(|Effect::Ring(session)| session));
        // With the last handle the lock is gone, and with it who died in it.
        let there: HashSet<_> = self.service.objects.iter().map(|(_, it)| number(it)).collect();
        self.doubtful.retain(|name| there.contains(name));
    }

    pub(crate) fn handle(&self, session: u32, which: usize) -> Option<(ObjectId, u32)> {
        let all = self.handles.get(&self.asker(session).session)?;
        (!all.is_empty()).then(|| all[which % all.len()])
    }

    fn ticket(&self, session: u32, which: usize) -> Option<(ObjectId, Known)> {
        let id = self.asker(session).session;
        let all: Vec<_> = self.tickets.iter().filter(|(_, known)| known.session == id).collect();
        (!all.is_empty()).then(|| {
            let (ticket, known) = all[which % all.len()];
            (*ticket, *known)
        })
    }

    pub(crate) fn open(&mut self, session: u32, name: u32) {
        let asker = self.asker(session);
        let key = Key { uid: 0, name: LockName::parse(&format!("n{name}")).unwrap() };
        match self.service.open(&asker, key, shape(name), 0) {
            Ok((handle, _)) => {
                assert!(!self.revoked.contains(&asker.session));
                self.handles.entry(asker.session).or_default().push((handle, name));
            }
            Err(Refusal::Revoked) => assert!(self.revoked.contains(&asker.session)),
            Err(Refusal::Full(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn acquire(&mut self, session: u32, which: usize, (shared, permits): (bool, u32), wait: bool) {
        let Some((handle, name)) = self.handle(session, which) else { return };
        let (claim, amount) = match shape(name).kind {
            Kind::ReaderWriter if shared => (Claim::Shared, 1),
            Kind::ReaderWriter => (Claim::Exclusive, 1 << 32),
            Kind::Semaphore => (Claim::Permits(permits), u64::from(permits)),
            _ => (Claim::Exclusive, 1),
        };
        let asker = self.asker(session);
        match self.service.acquire(&asker, handle, claim, wait) {
            Ok(Event { outcome: Outcome::Busy, .. }) => assert!(!wait),
            Ok(event) => self.keep(event, asker.session, name, amount),
            Err(Refusal::Full(_)) => {}
            Err(Refusal::Reason(Reason::Claim { found })) => {
                assert_eq!(found.kind, Kind::Barrier);
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// A ticket was given.
    fn keep(&mut self, event: Event, session: ObjectId, name: u32, amount: u64) {
        let known = Known { session, name, amount, holds: false };
        assert!(self.tickets.insert(event.ticket, known).is_none(), "tickets are given once");
        self.lines.entry(name).or_default().push_back(event.ticket);
        if event.outcome != Outcome::Queued {
            assert!(matches!(event.outcome, Outcome::Granted { .. }));
            let waits = |other: &ObjectId| {
                let other = self.service.tickets.get(*other);
                other.is_some_and(|it| matches!(it.state, State::Waiting { .. }))
            };
            assert!(!self.lines[&name].iter().any(waits), "who waits is overtaken");
            self.hear(event);
        }
    }

    fn arrive(&mut self, session: u32, which: usize, effects: &mut Vec<Effect>) {
        let Some((handle, name)) = self.handle(session, which) else { return };
        let asker = self.asker(session);
        match self.service.arrive(&asker, handle, effects) {
            Ok(Event { outcome: Outcome::Passed { index, .. }, .. }) => {
                assert_eq!(index, 2);
            }
            Ok(Event { outcome: Outcome::Broken { .. }, .. }) => {}
            Ok(event) => {
                assert_eq!(event.outcome, Outcome::Queued);
                self.keep(event, asker.session, name, 0);
            }
            Err(Refusal::Full(_)) => {}
            Err(other) => {
                assert!(matches!(other, Refusal::Reason(Reason::Claim { .. })));
                assert_ne!(shape(name).kind, Kind::Barrier);
            }
        }
    }

    fn release(
        &mut self,
        (session, which): (u32, usize),
        untouched: bool,
        effects: &mut Vec<Effect>,
    ) {
        let Some((ticket, known)) = self.ticket(session, which) else { return };
        match self.service.release(known.session, ticket, untouched, effects) {
            Ok(()) if untouched => self.drop_ticket(ticket),
            Ok(()) => self.part(ticket),
            Err(_) => assert!(!known.holds),
        }
    }

    fn cancel(&mut self, session: u32, which: usize, effects: &mut Vec<Effect>) {
        let Some((ticket, known)) = self.ticket(session, which) else { return };
        match self.service.cancel(known.session, ticket, effects).unwrap() {
            None => {
                assert!(!known.holds);
                self.drop_ticket(ticket);
            }
            Some(event) => {
                assert_eq!(event.ticket, ticket);
                self.hear(event);
            }
        }
    }

    fn next(&mut self, session: u32) {
        let id = self.asker(session).session;
        let Ok((events, more)) = self.service.next(id) else {
            return assert!(self.revoked.contains(&id));
        };
        assert!(events.is_empty() || self.rung.contains(&id), "nobody is told without a ring");
        events.into_iter().for_each(|event| self.hear(event));
        if !more {
            self.rung.remove(&id);
        }
    }

    /// A session hears how its ticket stands.
    fn hear(&mut self, event: Event) {
        let known = self.tickets.get_mut(&event.ticket).expect("its own ticket");
        match event.outcome {
            Outcome::Granted { token, has_owner_died } => {
                if !std::mem::replace(&mut known.holds, true) {
                    self.last_token = self.last_token.max(token);
                    let name = known.name;
                    // Of a semaphore others may release between the grant and the word of it.
                    if shape(name).kind != Kind::Semaphore {
                        let is_doubtful = self.doubtful.contains(&name);
                        assert_eq!(has_owner_died, is_doubtful, "{:?}", shape(name));
                    }
                    // Its claim came before those of all who still wait; who was granted before it may
                    // not have asked yet.
                    let line = self.lines.get_mut(&name).unwrap();
                    line.retain(|other| *other != event.ticket);
                }
            }
            Outcome::Passed { .. } | Outcome::Broken { .. } => self.drop_ticket(event.ticket),
            other => panic!("{other:?}"),
        }
    }

    fn drop_ticket(&mut self, ticket: ObjectId) {
        if let Some(known) = self.tickets.remove(&ticket) {
            self.lines.get_mut(&known.name).unwrap().retain(|other| *other != ticket);
        }
    }

    /// Tickets that went with a handle: those that the service does not know any more.
    fn forget(&mut self, is_meant: impl Fn(&Known) -> bool) {
        let gone: Vec<_> = self
            .tickets
            .iter()
            .filter(|(ticket, known)| {
                is_meant(known) && self.service.tickets.get(**ticket).is_none()
            })
            .map(|(ticket, _)| *ticket)
            .collect();
        gone.into_iter().for_each(|ticket| self.part(ticket));
    }

    /// A ticket is given back by its session, which has put right what it knew of.
    fn part(&mut self, ticket: ObjectId) {
        if let Some(known) = self.tickets.get(&ticket).filter(|it| it.holds && it.writes()) {
            self.doubtful.remove(&known.name);
        }
        self.drop_ticket(ticket);
    }

    fn lose(&mut self, session: ObjectId) {
        self.handles.remove(&session);
        self.rung.remove(&session);
        let died = self.tickets.values().filter(|it| it.session == session && it.holds);
        let leaves_doubt = |it: &&Known| it.writes() && !shape(it.name).is_silent;
        self.doubtful.extend(died.filter(leaves_doubt).map(|it| it.name));
        let of_session =
            |(ticket, known): (&ObjectId, &Known)| (known.session == session).then_some(*ticket);
        let gone: Vec<_> = self.tickets.iter().filter_map(of_session).collect();
        gone.into_iter().for_each(|ticket| self.drop_ticket(ticket));
        let left = self.service.holding(session);
        assert_eq!(left, Holding::default());
        assert!(!self.service.news.contains_key(&session));
    }

    pub(crate) fn check(&self) {
        self.check_exclusion();
        self.check_lines();
        self.check_counts();
        for session in self.service.news.keys() {
            assert!(self.rung.contains(session), "{session} is not rung");
        }
    }

    /// What sessions believe to hold is never more than there is.
    fn check_exclusion(&self) {
        let mut held: HashMap<u32, u64> = HashMap::new();
        for known in self.tickets.values().filter(|known| known.holds) {
            *held.entry(known.name).or_default() += known.amount;
        }
        for (name, amount) in held {
            let capacity = match shape(name).kind {
                Kind::ReaderWriter => 1 << 32,
                Kind::Semaphore => 4,
                _ => 1,
            };
            assert!(amount <= capacity, "{amount} of {capacity} of {:?}", shape(name));
        }
    }

    /// Who is in front cannot be served, and lines are in the order in which claims came.
    fn check_lines(&self) {
        for (_, object) in self.service.objects.iter() {
            let name = number(object);
            let line: Vec<_> = object.line.values().copied().collect();
            if let Some(front) = line.first().filter(|_| object.shape.kind != Kind::Barrier) {
                let amount = self.service.tickets.get(*front).unwrap().amount;
                assert!(!object.has_room(amount), "{front} could go on");
            }
            // Those of our line that the service has let go on, and not told, came before the others.
            let ours: Vec<_> = self.lines.get(&name).into_iter().flatten().copied().collect();
            assert!(ours.ends_with(&line), "{ours:?} {line:?}");
        }
    }

    fn check_counts(&self) {
        let (held, waiting) = self.service.ticket_counts();
        assert!(held + waiting <= self.service.tickets.len());
        assert!(self.service.lock_count() <= 5);
        for index in 0..6 {
            let session = self.asker(index).session;
            assert!(self.service.tickets.count_of(session) <= LIMITS.tickets_per_session);
            assert!(self.service.handles.count_of(session) <= LIMITS.handles_per_session);
            let known = self.tickets.values().filter(|known| known.session == session).count();
            assert_eq!(known, self.service.tickets.count_of(session));
        }
        for (thing, quota) in self.service.quotas() {
            assert!(quota.used_by_all() <= quota.shares().all, "{thing:?}");
        }
    }

    /// At the end of all sessions there is nothing.
    pub(crate) fn end_all(&mut self) {
        for session in 0..8 {
            self.take(Step::End { session });
            self.check();
        }
        assert_eq!(self.service.lock_count(), 0);
        assert!(self.service.names.is_empty() && self.service.news.is_empty());
        assert!(self.service.tickets.is_empty() && self.service.handles.is_empty());
        assert!(self.service.revoked.is_empty());
        assert!(self.service.quotas().iter().all(|(_, quota)| quota.used_by_all() == 0));
    }
}
