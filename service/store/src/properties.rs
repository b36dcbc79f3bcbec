//! Anything in any order: what loops and the store are told stays possible, and nothing is lost.

use std::collections::{BTreeMap, BTreeSet};

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{AreaKind, AreaName, AreaRights, Way, WayWanted};
use heliostat_service_grant::{Holder, Rate, Shares};
use proptest::prelude::*;

use crate::{Areas, Asker, Done, Effect, Failed, Key, Limits, Opening, Order, Wanted};

const RATE: Rate = Rate { per_second: 0, burst: 0 };

#[derive(Clone, Debug)]
enum Input {
    Create { session: u32, name: u8, bytes: u64 },
    Open { session: u32, name: u8, rights: u32, is_direct: bool },
    Close { which: usize },
    Resize { which: usize, bytes: u64 },
    Appoint { which: usize, others: u32 },
    Delete { which: usize },
    End { session: u32 },
    Revoke { session: u32 },
    LetGo { which: usize },
    Quiet { which: usize },
    Done { which: usize, is_well: bool },
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let session = || 0..4u32;
    let which = || 0..8usize;
    let one = prop_oneof![
        4 => (session(), 0..4u8, 0..50u64)
            .prop_map(|(session, name, bytes)| Input::Create { session, name, bytes }),
        5 => (session(), 0..4u8, 0..8u32, prop::bool::weighted(0.2)).prop_map(
            |(session, name, rights, is_direct)| Input::Open { session, name, rights, is_direct }
        ),
        2 => which().prop_map(|which| Input::Close { which }),
        2 => (which(), 0..60u64).prop_map(|(which, bytes)| Input::Resize { which, bytes }),
        1 => (which(), 0..8u32).prop_map(|(which, others)| Input::Appoint { which, others }),
        2 => which().prop_map(|which| Input::Delete { which }),
        1 => session().prop_map(|session| Input::End { session }),
        1 => session().prop_map(|session| Input::Revoke { session }),
        4 => which().prop_map(|which| Input::LetGo { which }),
        3 => which().prop_map(|which| Input::Quiet { which }),
        5 => (which(), prop::bool::weighted(0.8))
            .prop_map(|(which, is_well)| Input::Done { which, is_well }),
    ];
    prop::collection::vec(one, 1..200)
}

/// The service, with loops and a store that believe what they are told and check it.
struct World {
    areas: Areas,
    /// Handles that loops have, or have not let go yet: of whom, on which area, and whether closed.
    handles: BTreeMap<ObjectId, (ObjectId, ObjectId, bool)>,
    /// Handles of programs that drive the device themselves, as they may until they give them back.
    direct: BTreeMap<ObjectId, ObjectId>,
    /// What the store works on, one order for each area.
    orders: BTreeMap<ObjectId, Order>,
    /// Areas that loops are to leave a part of.
    asked: BTreeSet<ObjectId>,
    /// Areas in the store.
    stored: BTreeMap<u64, u64>,
    next_generation: u64,
    waiting: usize,
}

impl World {
    fn new() -> World {
        let limits = Limits {
            handles_per_session: 4,
            handles: Shares::whole(10),
            areas: Shares { user: 3, ..Shares::whole(5) },
            bytes: Shares { user: 90, ..Shares::whole(120) },
            rate: RATE,
            direct: 2,
        };
        World {
            areas: Areas::new(limits, Vec::new()),
            handles: BTreeMap::new(),
            direct: BTreeMap::new(),
            orders: BTreeMap::new(),
            asked: BTreeSet::new(),
            stored: BTreeMap::new(),
            next_generation: 1,
            waiting: 0,
        }
    }

    fn whose(&self, which: usize) -> Option<(ObjectId, ObjectId)> {
        let direct = self.direct.iter().map(|(handle, session)| (*session, *handle));
        let served = self.handles.iter().map(|(handle, (session, ..))| (*session, *handle));
        direct.chain(served).nth(which)
    }

    fn input(&mut self, input: &Input) {
        let mut effects = Vec::new();
        let it = &mut effects;
        let asked = match *input {
            Input::Create { session, name, bytes } => {
                let kind = AreaKind::Raw;
                let wanted = Wanted { name: named(name), bytes, kind, others: AreaRights::READ };
                self.areas.create(&asker(session), wanted, 0, it)
            }
            Input::Open { session, name, rights, is_direct } => {
                // Mostly areas of other users.
                let key = Key { uid: u32::from(name) % 2, name: named(name) };
                let rights = AreaRights::from_bits(rights).unwrap_or_default();
                let way = if is_direct { WayWanted::Any } else { WayWanted::Emulated };
                let opening = Opening { way, ..Opening::by_loop(rights) };
                return self.open(session, &key, &opening);
            }
            Input::Close { which } => {
                let Some((session, handle)) = self.whose(which) else { return };
                let _ = self.areas.close(session, handle, it);
                self.direct.remove(&handle);
                return self.take(effects);
            }
            Input::Resize { which, bytes } => {
                let Some(whose) = self.whose(which) else { return };
                self.areas.resize(whose, bytes, 0, it)
            }
            Input::Appoint { which, others } => {
                let Some(whose) = self.whose(which) else { return };
                let others = AreaRights::from_bits(others).unwrap_or_default();
                self.areas.appoint(whose, others, 0, it)
            }
            Input::Delete { which } => {
                let Some(whose) = self.whose(which) else { return };
                self.areas.delete(whose, 0, it)
            }
            Input::End { session } => return self.end(session),
            Input::Revoke { session } => {
                self.areas.revoke(&[id(session)], it);
                self.direct.retain(|_, of| *of != id(session));
                return self.take(effects);
            }
            Input::LetGo { which } => return self.let_go(which),
            Input::Quiet { which } => return self.quiet(which),
            Input::Done { which, is_well } => return self.done(which, is_well),
        };
        self.waiting += usize::from(asked.is_ok());
        self.take(effects);
    }

    fn open(&mut self, session: u32, key: &Key, opening: &Opening) {
        let mut effects = Vec::new();
        let opened = self.areas.open(&asker(session), key, opening, &mut effects);
        if let Ok((handle, Way::Direct)) = opened {
            self.direct.insert(handle, id(session));
            assert!(effects.is_empty() && self.direct.len() <= 2);
        }
        self.take(effects);
    }

    fn end(&mut self, session: u32) {
        let mut effects = Vec::new();
        self.areas.end(id(session), &mut effects);
        self.direct.retain(|_, of| *of != id(session));
        self.take(effects);
    }

    fn let_go(&mut self, which: usize) {
        let closed = self.handles.iter().filter(|(_, (_, _, is_closed))| *is_closed);
        let Some(handle) = closed.map(|(handle, _)| *handle).nth(which) else { return };
        self.handles.remove(&handle);
        let mut effects = Vec::new();
        self.areas.let_go(handle, &mut effects);
        self.take(effects);
    }

    fn quiet(&mut self, which: usize) {
        let Some(area) = self.asked.iter().copied().nth(which) else { return };
        self.asked.remove(&area);
        let mut effects = Vec::new();
        self.areas.quiet(area, &mut effects);
        self.take(effects);
    }

    fn done(&mut self, which: usize, is_well: bool) {
        let Some(area) = self.orders.keys().copied().nth(which) else { return };
        let Some(order) = self.orders.remove(&area) else { return };
        let mut effects = Vec::new();
        let result =
            if is_well { Ok(self.perform(&order)) } else { Err(Failed::Fragmented { limit: 64 }) };
        self.areas.done(area, result, &mut effects);
        self.take(effects);
    }

    fn perform(&mut self, order: &Order) -> Done {
        let generation = match order {
            Order::Create { bytes, .. } => {
                self.next_generation += 1;
                self.stored.insert(self.next_generation, *bytes);
                self.next_generation
            }
            Order::Resize { generation, bytes } => {
                assert!(self.stored.insert(*generation, *bytes).is_some());
                *generation
            }
            Order::Appoint { generation, .. } => {
                assert!(self.stored.contains_key(generation));
                *generation
            }
            Order::Delete { generation } => {
                assert!(self.stored.remove(generation).is_some());
                *generation
            }
        };
        Done { generation }
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Order(area, order) => {
                    if let Order::Delete { .. } = order {
                        let has_handle = self.handles.values().any(|(_, its, _)| *its == area);
                        assert!(!has_handle, "ended while a loop has a handle");
                    }
                    self.check_not_direct(area, &order);
                    assert!(!self.asked.contains(&area), "before the loops have left it");
                    assert_eq!(self.orders.insert(area, order), None, "two orders at once");
                }
                Effect::Open { session, handle, area, .. } => {
                    assert_eq!(self.handles.insert(handle, (session, area, false)), None);
                }
                Effect::Close { session, handle } => {
                    let held = self.handles.get_mut(&handle).expect("it was opened");
                    assert_eq!((held.0, held.2), (session, false));
                    held.2 = true;
                }
                Effect::Bytes { area, is_asked, .. } => {
                    assert!(!is_asked || self.asked.insert(area));
                }
                Effect::Rate(..) => {}
                Effect::Answer(..) => {
                    self.waiting = self.waiting.checked_sub(1).expect("nobody has asked");
                }
            }
        }
    }

    /// No bytes are taken from an area that a program drives directly.
    fn check_not_direct(&self, area: ObjectId, order: &Order) {
        let Some(view) = self.areas.view(area) else { return };
        let takes = match order {
            Order::Delete { .. } => true,
            Order::Resize { bytes, .. } => *bytes < view.bytes,
            Order::Create { .. } | Order::Appoint { .. } => false,
        };
        assert!(!takes || view.direct == 0, "taken from who has it directly");
    }

    fn check(&self) {
        let views: Vec<_> = self.areas.list(0, "", |_| true).collect();
        let of_handles: usize = views.iter().map(|view| view.handles).sum();
        assert_eq!(of_handles, self.handles.len() + self.direct.len());
        let direct: usize = views.iter().map(|view| view.direct).sum();
        assert_eq!((direct, direct), (self.direct.len(), self.areas.handle_count().1));
        let used: Vec<u64> =
            self.areas.quotas().iter().map(|(_, quota)| quota.used_by_all()).collect();
        assert_eq!((used[0], used[2]), (views.len() as u64, of_handles as u64));
        assert!(used[1] >= views.iter().map(|view| view.bytes).sum());
    }

    /// Every loop and the store answer everything.
    fn settle(&mut self) {
        for _ in 0..100 {
            (0..8).for_each(|_| self.let_go(0));
            (0..8).for_each(|_| self.quiet(0));
            (0..8).for_each(|_| self.done(0, true));
        }
    }
}

fn id(session: u32) -> ObjectId {
    ObjectId { index: session, generation: 1 }
}

/// Sessions of two users; the last one is a restricted one of the first.
fn asker(session: u32) -> Asker {
    let uid = session % 2;
    Asker { session: id(session), holder: Holder::user(uid), uid, is_user: session != 2 }
}

fn named(number: u8) -> AreaName {
    AreaName::parse(&format!("a/{number}")).expect("a name")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn orders_come_one_at_a_time_after_the_loops_have_left_and_everybody_is_answered(
        inputs in inputs()
    ) {
        let mut world = World::new();
        for input in &inputs {
            world.input(input);
            world.check();
        }
        (0..4).for_each(|session| world.end(session));
        world.settle();
        world.check();
        prop_assert_eq!((world.waiting, world.handles.len(), world.orders.len()), (0, 0, 0));
        let found: BTreeMap<u64, u64> =
            world.areas.list(0, "", |_| true).map(|view| (view.generation, view.bytes)).collect();
        prop_assert_eq!(&found, &world.stored);
        let bytes: u64 = world.stored.values().sum();
        prop_assert_eq!(world.areas.quotas()[1].1.used_by_all(), bytes);
    }
}
