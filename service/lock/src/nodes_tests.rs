//! Two nodes as state machines with a link between them: whatever happens in whatever order, and
//! whenever the link is lost, both sides believe what is so.
//!
//! The node that decides has `Locks` and `ForeignSessions`; the other one `RemoteLocks`. Between them
//! are two lines of messages, of which any number is delivered at a time, and all of which are lost with
//! the link. What the daemons do with answers is done here in short.

use std::collections::{BTreeSet, VecDeque};

use heliostat_abi::cluster::Class;
use heliostat_abi::lock::{Claim, Event, Kind, LockName, Outcome, Shape};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Holder, Shares, Via};
use proptest::prelude::*;

use crate::*;

const SESSIONS: u32 = 3;
const SHARES: Shares = Shares::whole(1000);

fn session(index: u32, generation: u32) -> ObjectId {
    ObjectId { index, generation }
}

#[derive(Clone, Debug)]
enum Step {
    /// A session of the other node opens, claims, releases, gives up, is told, ends.
    Open(u32),
    Claim(u32, bool),
    Release(u32, usize),
    Cancel(u32, usize),
    Next(u32),
    End(u32),
    /// The same of the session of the deciding node.
    ClaimHere,
    ReleaseHere(usize),
    /// So many messages of a direction arrive.
    Arrive(usize),
    Return(usize),
    LoseLink,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = || 0..SESSIONS;
    let step = prop_oneof![
        4 => one().prop_map(Step::Open),
        8 => (one(), any::<bool>()).prop_map(|(who, wait)| Step::Claim(who, wait)),
        6 => (one(), 0..8usize).prop_map(|(who, which)| Step::Release(who, which)),
        3 => (one(), 0..8usize).prop_map(|(who, which)| Step::Cancel(who, which)),
        4 => one().prop_map(Step::Next),
        1 => one().prop_map(Step::End),
        4 => Just(Step::ClaimHere),
        4 => (0..8usize).prop_map(Step::ReleaseHere),
        12 => (1..4usize).prop_map(Step::Arrive),
        12 => (1..4usize).prop_map(Step::Return),
        1 => Just(Step::LoseLink),
    ];
    prop::collection::vec(step, 1..250)
}

/// To the deciding node.
#[derive(Clone, Debug)]
enum Ask {
    Open,
    Claim(ObjectId, ObjectId, bool),
    Release(ObjectId),
    Cancel(ObjectId, ObjectId),
    End,
}

/// Back from it.
#[derive(Clone, Debug)]
enum Told {
    Opened(ObjectId),
    Given(ObjectId, Event),
    Cancelled(ObjectId, Option<Event>),
    News(Event),
}

struct World {
    here: Locks,
    foreign: ForeignSessions,
    own: Asker,
    own_handle: ObjectId,
    own_tickets: Vec<ObjectId>,
    remote: RemoteLocks,
    link: u64,
    generations: [u32; SESSIONS as usize],
    there: VecDeque<(ObjectId, Ask)>,
    back: VecDeque<(ObjectId, Told)>,
    /// Handles and tickets of the other node's sessions, by their names for them.
    handles: Vec<(ObjectId, ObjectId)>,
    tickets: Vec<(ObjectId, ObjectId)>,
    rung: BTreeSet<ObjectId>,
}

impl World {
    fn new() -> World {
        let limits = Limits {
            locks: SHARES,
            handles_per_session: 100,
            handles: SHARES,
            tickets_per_session: 100,
            tickets: SHARES,
        };
        let mut here = Locks::new(limits, 1);
        let own = Asker { session: session(50, 1), holder: Holder::user(0) };
        let (own_handle, _) = here.open(&own, World::key(), Shape::LOCK, 0).unwrap();
        World {
            here,
            foreign: ForeignSessions::default(),
            own,
            own_handle,
            own_tickets: Vec::new(),
            remote: RemoteLocks::new(SHARES, SHARES),
            link: 1,
            generations: [1; SESSIONS as usize],
            there: VecDeque::new(),
            back: VecDeque::new(),
            handles: Vec::new(),
            tickets: Vec::new(),
            rung: BTreeSet::new(),
        }
    }

    fn key() -> Key {
        Key { uid: 0, name: LockName::parse("one").unwrap() }
    }

    fn who(&self, index: u32) -> ObjectId {
        session(index, self.generations[index as usize])
    }

    fn via(&self) -> Via {
        Via { node: 2, link: self.link }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Open(who) => self.there.push_back((self.who(who), Ask::Open)),
            Step::Claim(who, wait) => {
                let who = self.who(who);
                let handle = self.handles.iter().rev().find(|(of, _)| *of == who);
                let Some((_, handle)) = handle.copied() else { return };
                match self.remote.handle(who, handle).copied() {
                    Some(it) if !it.is_lost => {
                        self.there.push_back((who, Ask::Claim(handle, it.there, wait)));
                    }
                    _ => {}
                }
            }
            Step::Release(who, which) => {
                let Some(ticket) = self.ticket(who, which) else { return };
                let who = self.who(who);
                let found = *self.remote.ticket(who, ticket).unwrap();
                if let Standing::Holds(_) = found.standing {
                    self.remote.remove_ticket(who, ticket);
                    self.there.push_back((who, Ask::Release(found.there)));
                }
            }
            Step::Cancel(who, which) => {
                let Some(ticket) = self.ticket(who, which) else { return };
                let who = self.who(who);
                let found = *self.remote.ticket(who, ticket).unwrap();
                if found.standing == Standing::Waits {
                    self.remote.set(who, ticket, Standing::Cancelled(None));
                    self.there.push_back((who, Ask::Cancel(ticket, found.there)));
                }
            }
            Step::Next(who) => {
                let who = self.who(who);
                let (events, more) = self.remote.next(who, 4);
                assert!(events.is_empty() || self.rung.contains(&who), "told without a ring");
                assert!(events.iter().all(|event| event.outcome != Outcome::Queued));
                if !more {
                    self.rung.remove(&who);
                }
            }
            Step::End(index) => {
                let who = self.who(index);
                self.remote.end(who);
                self.there.push_back((who, Ask::End));
                self.generations[index as usize] += 1;
                self.handles.retain(|(of, _)| *of != who);
                self.tickets.retain(|(of, _)| *of != who);
            }
            Step::ClaimHere => {
                let got = self.here.acquire(&self.own, self.own_handle, Claim::Exclusive, true);
                self.own_tickets.push(got.unwrap().ticket);
            }
            Step::ReleaseHere(which) => {
                let Some(ticket) = self.own_tickets.get(which % 8).copied() else { return };
                let mut effects = Vec::new();
                let own = self.own.session;
                if self.here.release(own, ticket, false, &mut effects).is_ok() {
                    self.own_tickets.retain(|it| *it != ticket);
                }
                self.carry(effects);
            }
            Step::Arrive(count) => {
                (0..count).for_each(|_| self.arrive());
            }
            Step::Return(count) => (0..count).for_each(|_| self.come_back()),
            Step::LoseLink => self.lose(),
        }
    }

    fn ticket(&mut self, who: u32, which: usize) -> Option<ObjectId> {
        let who = self.who(who);
        let remote = &self.remote;
        self.tickets.retain(|(of, ticket)| remote.ticket(*of, *ticket).is_some());
        let its: Vec<_> = self.tickets.iter().filter(|(of, _)| *of == who).collect();
        (!its.is_empty()).then(|| its[which % its.len()].1)
    }

    /// The deciding node takes a message.
    fn arrive(&mut self) {
        let Some((who, ask)) = self.there.pop_front() else { return };
        let mut effects = Vec::new();
        let session = match ask {
            Ask::Open => {
                let from = Foreign { node: 1, link: self.link, session: who, user: 0 };
                self.foreign.meet(from).ok()
            }
            _ => self.foreign.find(Via { node: 1, link: self.link }, who),
        };
        let Some(session) = session else { return };
        let asker = Asker { session, holder: Holder::user(0) };
        let mut told = None;
        match ask {
            Ask::Open => {
                let opened = self.here.open(&asker, World::key(), Shape::LOCK, 0);
                told = opened.ok().map(|(handle, _)| Told::Opened(handle));
            }
            Ask::Claim(handle, there, wait) => {
                let given = self.here.acquire(&asker, there, Claim::Exclusive, wait);
                told = given.ok().map(|event| Told::Given(handle, event));
            }
            Ask::Release(ticket) => {
                self.here.release(session, ticket, false, &mut effects).unwrap();
            }
            Ask::Cancel(ticket, there) => {
                let cancelled = self.here.cancel(session, there, &mut effects);
                told = Some(Told::Cancelled(ticket, cancelled.unwrap()));
            }
            Ask::End => {
                self.foreign.end(session);
                self.here.end(session, &mut effects);
            }
        }
        self.carry(effects);
        self.back.extend(told.map(|told| (who, told)));
    }

    fn carry(&mut self, effects: Vec<Effect>) {
        for Effect::Ring(session) in effects {
            let Some(who) = self.foreign.get(session).copied() else { continue };
            let (events, _) = self.here.next(session).unwrap();
            let news = events.into_iter().map(|event| (who.session, Told::News(event)));
            self.back.extend(news);
        }
    }

    /// The other node takes a message.
    fn come_back(&mut self) {
        let Some((who, told)) = self.back.pop_front() else { return };
        let lives = who.generation == self.generations[who.index as usize];
        match told {
            Told::Opened(there) if lives => {
                let via = self.via();
                let handle = RemoteHandle {
                    via,
                    there,
                    kind: Kind::Lock,
                    class: Class::Normal,
                    is_lost: false,
                };
                let handle = self.remote.add_handle(who, Holder::user(0), handle).unwrap();
                self.handles.push((who, handle));
            }
            Told::Given(handle, Event { ticket: there, outcome }) if lives => {
                let stands = match outcome {
                    Outcome::Queued => Standing::Waits,
                    Outcome::Granted { .. } => Standing::Holds(outcome),
                    _ => return,
                };
                let ticket = self.remote.add_ticket(who, handle, there, stands).unwrap().unwrap();
                self.tickets.push((who, ticket));
            }
            Told::Cancelled(ticket, event) if lives => match event {
                None => drop(self.remote.remove_ticket(who, ticket).unwrap()),
                Some(event) => self.remote.set(who, ticket, Standing::Holds(event.outcome)),
            },
            Told::News(Event { ticket, outcome }) => {
                self.rung.extend(self.remote.hear(self.link, ticket, outcome));
            }
            _ => {}
        }
    }

    /// Both sides lose the link: first one, then the other, each with its own tables only.
    fn lose(&mut self) {
        self.there.clear();
        self.back.clear();
        let rung = self.remote.lose(self.via(), None);
        self.rung.extend(rung);
        let mut effects = Vec::new();
        for session in self.foreign.lose(Via { node: 1, link: self.link }) {
            self.here.end(session, &mut effects);
        }
        self.link += 1;
        self.carry(effects);
        assert_eq!(self.foreign.count(), 0);
        let holds = self.remote.counts();
        assert_eq!((holds.held, holds.waiting), (0, 0), "by a link that is lost");
    }

    /// Who believes that it holds, holds; so never two.
    fn check(&self) {
        let mut holders = 0;
        for (who, ticket) in &self.tickets {
            let Some(found) = self.remote.ticket(*who, *ticket) else { continue };
            if let Standing::Holds(outcome) = found.standing {
                holders += 1;
                let there = self.here.tickets.get(found.there).expect("it is known there");
                assert_eq!(there.outcome(), outcome);
            }
        }
        let own = self.own_tickets.iter().filter_map(|it| self.here.tickets.get(*it));
        holders += own.filter(|it| matches!(it.outcome(), Outcome::Granted { .. })).count();
        assert!(holders <= 1, "{holders} hold it");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::schedules(), ..ProptestConfig::default() })]

    #[test]
    fn both_nodes_believe_what_is_so(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
            world.check();
        }
        // Everything on the way arrives: who is granted it is told, and rung for it.
        while !world.there.is_empty() || !world.back.is_empty() {
            world.arrive();
            world.come_back();
            world.check();
        }
        for index in 0..SESSIONS {
            let who = world.who(index);
            prop_assert!(!world.remote.has_news(who) || world.rung.contains(&who));
            world.take(Step::End(index));
        }
        while !world.there.is_empty() || !world.back.is_empty() {
            world.arrive();
            world.come_back();
        }
        prop_assert_eq!(world.foreign.count(), 0);
        prop_assert_eq!(world.remote.counts(), Holding::default());
        let left = world.here.holding(world.own.session);
        prop_assert_eq!(world.here.ticket_counts(), (left.held, left.waiting));
    }
}
