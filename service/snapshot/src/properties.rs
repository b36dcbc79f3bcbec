//! Whatever sessions do in whatever order, the snapshot service keeps its promises.

use std::collections::{HashMap, HashSet};

use heliostat_abi::limits::FDS_PER_REPLY_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::snapshot::memory::CONSUMERS_MAX;
use heliostat_abi::snapshot::region::{Presence, RegionName};
use heliostat_service_grant::{Holder, Shares};
use proptest::prelude::*;

use crate::*;

const LIMITS: Limits = Limits {
    regions_per_session: 2,
    attachments_per_session: 40,
    regions: Shares::whole(100),
    attachments: Shares { user: 150, ..Shares::whole(1000) },
};

const USER: Holder = Holder::user(7);

#[derive(Clone, Debug)]
enum Step {
    Publish { session: u32, name: u32 },
    Unpublish { session: u32, name: u32 },
    Attach { session: u32, name: u32, times: usize },
    Detach { session: u32, which: usize },
    Changes { name: u32 },
    End { session: u32 },
    Revoke { session: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (session, name) = (0..5u32, 0..3u32);
    let pair = (session.clone(), name.clone());
    let step = prop_oneof![
        4 => pair.clone().prop_map(|(session, name)| Step::Publish { session, name }),
        1 => pair.clone().prop_map(|(session, name)| Step::Unpublish { session, name }),
        5 => (pair, 1..30usize)
            .prop_map(|((session, name), times)| Step::Attach { session, name, times }),
        4 => (session.clone(), any::<usize>())
            .prop_map(|(session, which)| Step::Detach { session, which }),
        4 => name.prop_map(|name| Step::Changes { name }),
        1 => session.clone().prop_map(|session| Step::End { session }),
        1 => session.prop_map(|session| Step::Revoke { session }),
    ];
    prop::collection::vec(step, 1..120)
}

/// The service beside what must be true of it.
struct World {
    service: Snapshot,
    generations: HashMap<u32, u32>,
    /// Whom the producer of each region believes to be there.
    believed: HashMap<ObjectId, HashSet<ObjectId>>,
    /// Words of the node page.
    words: HashMap<ObjectId, u64>,
    ever: HashSet<ObjectId>,
    counts: HashMap<Key, u64>,
}

fn key(name: u32) -> Key {
    Key { uid: 7, name: RegionName::parse(&format!("n{name}")).unwrap() }
}

impl World {
    fn session(&self, index: u32) -> ObjectId {
        ObjectId { index, generation: self.generations.get(&index).copied().unwrap_or(1) }
    }

    fn region(&self, name: u32) -> Option<ObjectId> {
        self.service.resolve(&key(name)).map(|named| named.region)
    }

    fn apply(&mut self, step: &Step) {
        let mut effects = Vec::new();
        match *step {
            Step::Publish { session, name } => self.publish(session, name),
            Step::Unpublish { session, name } => {
                if let Some(region) = self.region(name) {
                    let _ = self.service.unpublish(self.session(session), region, &mut effects);
                }
            }
            Step::Attach { session, name, times } => {
                (0..times).for_each(|_| self.attach(session, name));
            }
            Step::Detach { session, which } => self.detach(session, which, &mut effects),
            Step::Changes { name } => self.ask(name),
            Step::End { session } => {
                self.service.end(self.session(session), &mut effects);
                *self.generations.entry(session).or_insert(1) += 1;
            }
            Step::Revoke { session } => {
                self.service.revoke(&[self.session(session)], &mut effects);
            }
        }
        self.follow(&effects);
    }

    fn publish(&mut self, session: u32, name: u32) {
        let was_taken = self.region(name).is_some();
        let answer = self.service.publish(self.session(session), USER, key(name));
        let Ok(named) = answer else { return };
        assert!(!was_taken, "a living name was given again");
        let count = self.counts.entry(key(name)).or_default();
        *count += 1;
        assert_eq!(named.generation, *count);
        self.believed.insert(named.region, HashSet::new());
    }

    fn attach(&mut self, session: u32, name: u32) {
        let Some(region) = self.region(name) else { return };
        let (session, mut effects) = (self.session(session), Vec::new());
        if let Ok(consumer) = self.service.attach(session, USER, region, &mut effects) {
            assert!(self.ever.insert(consumer), "identity {consumer} was given out twice");
            assert_eq!(effects, [Effect::RegionChanged(region)]);
        }
        self.follow(&effects);
    }

    fn detach(&mut self, session: u32, which: usize, effects: &mut Vec<Effect>) {
        let session = self.session(session);
        let ids = self.ever.iter().filter_map(|id| Some((*id, self.service.consumer(*id)?)));
        let mut ids: Vec<_> = ids.filter(|(_, view)| view.session == session).collect();
        ids.sort_by_key(|(id, _)| id.index);
        let Some((id, view)) = ids.get(which % ids.len().max(1)) else { return };
        assert_eq!(self.service.detach(session, view.region, *id, effects), Ok(()));
    }

    /// The producer asks until there is nothing more, and never has to know more than it can.
    fn ask(&mut self, name: u32) {
        let Some(region) = self.region(name) else { return };
        let producer = self.service.region(region).unwrap().producer;
        let believed = self.believed.get_mut(&region).unwrap();
        loop {
            let batch = self.service.changes(producer, region).unwrap();
            assert!(batch.changes.len() <= FDS_PER_REPLY_MAX);
            for change in &batch.changes {
                match change.state {
                    Presence::Joined | Presence::JoinedWithBell => {
                        assert!(believed.insert(change.consumer), "told twice")
                    }
                    Presence::Left => assert!(believed.remove(&change.consumer), "never told"),
                }
                assert!(believed.len() <= CONSUMERS_MAX);
            }
            if !batch.more {
                break;
            }
        }
        let there: HashSet<_> =
            self.service.region(region).unwrap().consumers.into_iter().collect();
        assert_eq!(*believed, there);
    }

    fn follow(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::RegionChanged(id) => *self.words.entry(*id).or_default() += 1,
                Effect::RegionFreed(id) => {
                    assert!(self.believed.remove(id).is_some());
                    assert_eq!(self.service.region(*id), None);
                }
                Effect::ConsumerFreed(_) => {}
            }
        }
    }

    fn check(&self) {
        for index in 0..5 {
            let holding = self.service.holding(self.session(index));
            assert!(holding.regions <= LIMITS.regions_per_session);
            assert!(holding.attachments <= LIMITS.attachments_per_session);
        }
        for region in self.service.regions() {
            assert!(region.consumers.len() <= CONSUMERS_MAX);
            let named = self.service.resolve(&region.key);
            assert_eq!(named.map(|named| named.region), Some(region.id));
            let of_region = |id| self.service.consumer(id).map(|view| view.region);
            assert!(region.consumers.iter().all(|id| of_region(*id) == Some(region.id)));
        }
        let attached: usize = self.service.names.values().map(|name| name.attached).sum();
        assert_eq!(attached, self.service.consumer_count());
    }
}

proptest! {
    #[test]
    fn any_order_of_requests_keeps_every_promise(steps in steps()) {
        let mut world = World {
            service: Snapshot::new(LIMITS),
            generations: HashMap::new(),
            believed: HashMap::new(),
            words: HashMap::new(),
            ever: HashSet::new(),
            counts: HashMap::new(),
        };
        for step in &steps {
            world.apply(step);
            world.check();
        }
        for index in 0..5 {
            world.apply(&Step::End { session: index });
        }
        world.check();
        prop_assert_eq!(world.service.region_count() + world.service.consumer_count(), 0);
        let service = &world.service;
        let known = service.regions.session_count() + service.consumers.session_count();
        prop_assert_eq!(known, 0);
        prop_assert!(service.revoked.is_empty());
        prop_assert_eq!(world.service.tombstones.len(), world.service.names.len());
    }
}
