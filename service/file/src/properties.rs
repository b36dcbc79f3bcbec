//! Whatever sessions, writers and the kernel do in whatever order, the service keeps its promises.

use std::collections::{HashMap, HashSet};

use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Holder, Shares};
use proptest::prelude::*;

use crate::*;

const LIMITS: Limits = Limits { leases_per_session: 3, leases: Shares::whole(6) };
const FILES: u64 = 8;

#[derive(Clone, Debug)]
enum Step {
    Ask { session: u32, inode: u64, grants: bool },
    EndLease { session: u32, inode: u64 },
    Write { inode: u64 },
    End { session: u32 },
    Revoke { session: u32 },
    Wait { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (session, inode) = (0..4u32, 0..FILES);
    let pair = (session.clone(), inode.clone());
    let step = prop_oneof![
        8 => (pair.clone(), prop::bool::weighted(0.8))
            .prop_map(|((session, inode), grants)| Step::Ask { session, inode, grants }),
        3 => pair.prop_map(|(session, inode)| Step::EndLease { session, inode }),
        3 => inode.prop_map(|inode| Step::Write { inode }),
        1 => session.clone().prop_map(|session| Step::End { session }),
        1 => session.prop_map(|session| Step::Revoke { session }),
        3 => (1..40u64).prop_map(|ms| Step::Wait { ms }),
    ];
    prop::collection::vec(step, 1..150)
}

/// What a word of the node page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Active,
    Over,
}

/// The service beside the kernel and the node page.
struct World {
    service: File,
    now_ns: u64,
    generations: HashMap<u32, u32>,
    /// Leases of the kernel.
    kernel: HashMap<ObjectId, u64>,
    words: HashMap<ObjectId, Word>,
    /// Whom the service told that it holds what, and how often.
    told: HashMap<(ObjectId, ObjectId), u32>,
    broken_ns: HashMap<u64, u64>,
}

fn key(inode: u64) -> FileKey {
    FileKey { device: 1, inode }
}

impl World {
    fn session(&self, index: u32) -> ObjectId {
        ObjectId { index, generation: self.generations.get(&index).copied().unwrap_or(1) }
    }

    fn apply(&mut self, step: &Step) {
        let mut effects = Vec::new();
        match *step {
            Step::Ask { session, inode, grants } => self.ask(session, inode, grants),
            Step::EndLease { session, inode } => {
                let (session, lease) = (self.session(session), self.service.lease_on(key(inode)));
                let Some(lease) = lease else { return };
                let held = self.told.remove(&(session, lease));
                if let Some(more @ 1..) = held.map(|times| times - 1) {
                    self.told.insert((session, lease), more);
                }
                let answer = self.service.end_lease(session, lease, &mut effects);
                assert_eq!(answer.is_ok(), held.is_some());
            }
            Step::Write { inode } => self.write(inode),
            Step::End { session } => {
                let id = self.session(session);
                self.service.end(id, &mut effects);
                self.told.retain(|(holder, _), _| *holder != id);
                *self.generations.entry(session).or_insert(1) += 1;
            }
            Step::Revoke { session } => {
                self.service.revoke(&[self.session(session)], &mut effects);
            }
            Step::Wait { ms } => self.now_ns += ms * 1_000_000,
        }
        self.follow(&effects);
    }

    fn ask(&mut self, session: u32, inode: u64, grants: bool) {
        let (session, mut effects) = (self.session(session), Vec::new());
        let there = self.service.lease_on(key(inode));
        let answer =
            self.service.ask(session, Holder::user(7), key(inode), self.now_ns, &mut effects);
        let Ok(lease) = answer else { return assert_eq!(effects, []) };
        if effects.is_empty() {
            assert_eq!(there, Some(lease));
            *self.told.entry((session, lease)).or_default() += 1;
            return;
        }
        assert_eq!((there, effects), (None, vec![Effect::TakeLease(lease)]));
        let pause_ends_ns = self.broken_ns.get(&inode).map_or(0, |at| at + PAUSE_SHORTEST_NS);
        assert!(self.now_ns >= pause_ends_ns, "asked of the kernel within the pause");
        if !grants {
            return self.service.not_taken(lease);
        }
        assert!(self.kernel.insert(lease, inode).is_none(), "{lease} was given out twice");
        self.told.insert((session, lease), 1);
        let mut effects = Vec::new();
        self.service.taken(lease, &mut effects);
        self.follow(&effects);
    }

    /// A writer comes: it must find no lease when it goes on.
    fn write(&mut self, inode: u64) {
        let lease = self.kernel.iter().find(|(_, leased)| **leased == inode).map(|(id, _)| *id);
        let Some(lease) = lease else { return };
        let mut effects = Vec::new();
        self.service.broken(lease, self.now_ns, &mut effects);
        self.follow(&effects);
        self.broken_ns.insert(inode, self.now_ns);
        assert!(!self.kernel.contains_key(&lease));
        // Said twice it changes nothing.
        effects.clear();
        self.service.broken(lease, self.now_ns, &mut effects);
        assert_eq!(effects, []);
    }

    fn follow(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::TakeLease(id) => panic!("{id} is not asked for here"),
                Effect::Active(id) => drop(self.words.insert(*id, Word::Active)),
                Effect::Revoked(id) | Effect::Freed(id) => {
                    assert_eq!(self.words.insert(*id, Word::Over), Some(Word::Active));
                    self.told.retain(|(_, lease), _| lease != id);
                }
                Effect::GiveBack(id) => {
                    assert_eq!(self.words[id], Word::Over, "given back before its word changed");
                    assert!(self.kernel.remove(id).is_some());
                }
            }
        }
    }

    fn check(&self) {
        let active = self.words.iter().filter(|(_, word)| **word == Word::Active);
        let active: HashSet<_> = active.map(|(id, _)| *id).collect();
        assert_eq!(active, self.kernel.keys().copied().collect());
        assert!(self.kernel.len() as u64 <= LIMITS.leases.all);
        let held = self.service.leases().flat_map(|view| {
            assert!(!view.holders.is_empty());
            assert_eq!(self.kernel[&view.id], view.key.inode);
            view.holders.into_iter().map(move |holder| (holder, view.id))
        });
        let held: HashSet<_> = held.collect();
        assert_eq!(held, self.told.keys().copied().collect());
        for index in 0..4 {
            let session = self.session(index);
            assert!(self.service.holding(session) <= LIMITS.leases_per_session);
            let own = held.iter().filter(|(holder, _)| *holder == session).count();
            assert_eq!(self.service.leases_of(session).count(), own);
        }
    }
}

proptest! {
    #[test]
    fn any_order_of_requests_and_writers_keeps_every_promise(steps in steps()) {
        let mut world = World {
            service: File::new(LIMITS),
            now_ns: 0,
            generations: HashMap::new(),
            kernel: HashMap::new(),
            words: HashMap::new(),
            told: HashMap::new(),
            broken_ns: HashMap::new(),
        };
        for step in &steps {
            world.apply(step);
            world.check();
        }
        for session in 0..4 {
            world.apply(&Step::End { session });
        }
        world.check();
        prop_assert_eq!((world.service.lease_count(), world.kernel.len()), (0, 0));
        let service = &world.service;
        prop_assert_eq!(service.leases.session_count(), 0);
        prop_assert!(service.by_key.is_empty() && service.revoked.is_empty());
    }
}
