//! Whatever sessions and loops do in whatever order, the memory service keeps its promises.
//!
//! The world beside the service knows who may still touch which bytes: a session that maps arenas until
//! it gives its handle back or ends, a loop until it says that it has let go. Bytes that become free
//! must be touched by nobody.

mod steps;

use std::collections::{HashMap, HashSet};

use heliostat_abi::memory::page::State;
use heliostat_abi::memory::{Allocation, MemoryName, Piece, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Holder, Shares};
use proptest::prelude::*;
use steps::{steps, Step};

use crate::handles::Whose;
use crate::*;

const LIMITS: Limits = Limits {
    arena_bytes: 4096,
    handles_per_session: 12,
    handles: Shares::whole(60),
    regions: Shares { user: 20, ..Shares::whole(30) },
    bytes: Shares { user: 12_000, ..Shares::whole(100_000) },
    arenas: Shares::whole(40),
};

/// What a loop has been told and has not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owed {
    LetGo(Whose),
    Left(ObjectId, ObjectId, u32),
    /// A session that maps a region which moves is seen outside.
    Out(ObjectId, Whose),
    /// The bytes of a region are copied, or cannot be.
    Copied(ObjectId),
}

/// By whom a region's bytes may be touched: by a loop, or by the session that maps them.
#[derive(Clone, Debug)]
struct Touch {
    region: ObjectId,
    pieces: Vec<Piece>,
    by_loop: bool,
    /// It may be in the midst of an operation; else it looks at the word before it touches anything.
    is_in: bool,
}

struct World {
    service: Memory,
    generations: HashMap<u32, u32>,
    /// Handles of each session that were given and not given back.
    open: HashMap<ObjectId, Vec<ObjectId>>,
    /// Who may touch which bytes.
    touches: HashMap<Whose, Touch>,
    words: HashMap<ObjectId, (State, u32)>,
    owed: Vec<Owed>,
    arenas: HashMap<ObjectId, u64>,
    /// Regions that have left, and are managed here.
    left: HashSet<ObjectId>,
}

/// Sessions 0 to 3 are of user 0, the others of user 1; the odd ones map nothing.
fn asker(world: &World, index: u32) -> Asker {
    let uid = index / 4;
    let session = world.session(index);
    let maps = index % 2 == 0;
    Asker { session, holder: Holder::user(uid), uid, maps, is_user: maps }
}

fn name(number: u32) -> Option<MemoryName> {
    (number > 0).then(|| MemoryName::parse(&format!("n{number}")).unwrap())
}

impl World {
    fn new() -> World {
        let (generations, open, touches) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (words, owed, arenas) = (HashMap::new(), Vec::new(), HashMap::new());
        let (service, left) = (Memory::new(LIMITS), HashSet::new());
        World { service, generations, open, touches, words, owed, arenas, left }
    }

    fn session(&self, index: u32) -> ObjectId {
        ObjectId { index, generation: self.generations.get(&index).copied().unwrap_or(1) }
    }

    fn pick(&self, session: u32, which: usize) -> Option<ObjectId> {
        let all = self.open.get(&self.session(session))?;
        all.get(which % all.len().max(1)).copied()
    }

    fn room(&mut self, asker: &Asker, room: Room) -> Option<ObjectId> {
        let Room::NewArena(bytes) = room else { return None };
        let id = self.service.add_arena((asker.uid, asker.holder), bytes).unwrap();
        assert_eq!(self.arenas.insert(id, bytes), None, "an arena's identity was given twice");
        Some(id)
    }

    fn apply(&mut self, step: &Step) {
        let mut effects = Vec::new();
        match *step {
            Step::Allocate { session, bytes, lasting, name } => {
                self.allocate(session, bytes, lasting, name, &mut effects)
            }
            Step::Map { session, user, name, rights } => {
                self.map(session, user, name, rights, &mut effects)
            }
            Step::Unmap { session, which } => {
                let Some(handle) = self.pick(session, which) else { return };
                let session = self.session(session);
                if self.service.unmap(session, handle, &mut effects).is_ok() {
                    self.gave_back(session, handle);
                }
            }
            Step::Free { session, which } => {
                let Some(handle) = self.pick(session, which) else { return };
                let session = self.session(session);
                if self.service.free(session, handle, &mut effects).is_ok() {
                    self.gave_back(session, handle);
                }
            }
            Step::Grow { session, which, bytes } => self.grow(session, which, bytes, &mut effects),
            Step::Move { session, which } => self.begin_move(session, which, &mut effects),
            Step::Depart { session, which } => self.depart(session, which, &mut effects),
            Step::ExpireMoves => self.expire_moves(),
            Step::Rename { session, which, name: number } => {
                let Some(handle) = self.pick(session, which) else { return };
                let session = self.session(session);
                let _ = self.service.rename(session, handle, name(number), Rights::READ);
            }
            Step::Lasting { session, which, lasting } => {
                let Some(handle) = self.pick(session, which) else { return };
                let _ = self.service.set_lasting(self.session(session), handle, lasting);
            }
            Step::Serve { session } => {
                let _ = self.service.serve(&asker(self, session), &mut effects);
            }
            Step::Unserve { session } => self.unserve(session),
            Step::Loop { all } => return self.answer(all),
            Step::End { session } => self.end(session, &mut effects),
            Step::Revoke { session } => {
                let session = self.session(session);
                self.service.revoke(&[session], &mut effects);
                // What it maps it still may touch.
                self.open.remove(&session);
            }
        }
        self.follow(&effects);
    }

    fn allocate(
        &mut self,
        session: u32,
        bytes: u64,
        lasting: bool,
        number: u32,
        effects: &mut Vec<Effect>,
    ) {
        let asker = asker(self, session);
        let wanted = Allocation { bytes, lasting, name: name(number), others: Rights::READ };
        let Ok(room) = self.service.check_allocation(&asker, &wanted) else { return };
        let arena = self.room(&asker, room);
        let handle = self.service.allocate(&asker, wanted, arena, 0, effects).unwrap();
        self.took(&asker, handle);
    }

    fn map(&mut self, session: u32, uid: u32, number: u32, rights: u32, effects: &mut Vec<Effect>) {
        let Some(name) = name(number) else { return };
        let Some(region) = self.service.resolve(&Key { uid, name }) else { return };
        let asker = asker(self, session);
        let rights = Rights::from_bits(rights).unwrap();
        if let Ok(handle) = self.service.map(&asker, region, rights, effects) {
            self.took(&asker, handle);
        }
    }

    fn grow(&mut self, session: u32, which: usize, bytes: u64, effects: &mut Vec<Effect>) {
        let Some(handle) = self.pick(session, which) else { return };
        let asker = asker(self, session);
        let Ok(room) = self.service.check_growth(&asker, handle, bytes) else { return };
        let (region, _) = self.service.handle(asker.session, handle).unwrap();
        let (uid, holder) = self.service.owner(region).unwrap();
        let arena = self.room(&Asker { uid, holder, ..asker }, room);
        let before = self.service.pieces(region).unwrap().0.to_vec();
        self.service.grow(&asker, handle, bytes, arena, effects).unwrap();
        let (after, length) = self.service.pieces(region).unwrap();
        assert!(length == bytes && after.iter().map(|piece| piece.bytes).sum::<u64>() >= bytes);
        let stay = before.iter().zip(after);
        assert!(stay.into_iter().all(|(was, is)| (was.arena, was.offset) == (is.arena, is.offset)));
        self.learn(region);
    }

    /// Who may touch a region learns where it lies, and may be in it.
    fn learn(&mut self, region: ObjectId) {
        let Some((now, _)) = self.service.pieces(region) else { return };
        let its = self.touches.values_mut().filter(|touch| touch.region == region);
        its.for_each(|touch| {
            touch.pieces = now.to_vec();
            touch.is_in = true;
        });
    }

    fn begin_move(&mut self, session: u32, which: usize, effects: &mut Vec<Effect>) {
        let Some(handle) = self.pick(session, which) else { return };
        let asker = asker(self, session);
        let Ok((uid, holder, room)) = self.service.check_move(&asker, handle) else { return };
        let arena = self.room(&Asker { uid, holder, ..asker }, room);
        let region = self.service.begin_move(&asker, handle, arena, 0, effects).unwrap();
        let may_be_in = self.service.may_be_in(region);
        self.owed.extend(may_be_in.into_iter().map(|whose| Owed::Out(region, whose)));
    }

    /// A region is copied, or given up.
    fn end_move(&mut self, region: ObjectId, is_copied: bool) {
        let mut effects = Vec::new();
        let leaves = self.service.departing(region).is_some();
        let to = Forward { node: 2, region };
        match is_copied {
            true if leaves => {
                assert!(self.service.departed(region, to, 0, &mut effects));
                assert!(!self.service.departed(region, to, 0, &mut effects), "it has left twice");
                assert_eq!(self.service.forward_of_region(region), Some(to));
                self.left.insert(region);
            }
            true => self.service.copied(region, &mut effects),
            false => self.service.cancel_move(region, MoveEnd::Failed, &mut effects),
        }
        self.learn(region);
        self.follow(&effects);
    }

    fn depart(&mut self, session: u32, which: usize, effects: &mut Vec<Effect>) {
        let Some(handle) = self.pick(session, which) else { return };
        let asker = asker(self, session);
        let begun = self.service.begin_departure(&asker, handle, 0, effects);
        let Ok(region) = begun else { return };
        let may_be_in = self.service.may_be_in(region);
        self.owed.extend(may_be_in.into_iter().map(|whose| Owed::Out(region, whose)));
    }

    fn expire_moves(&mut self) {
        let mut effects = Vec::new();
        let before: Vec<_> = self.service.moves().collect();
        self.service.expire_moves(u64::MAX, &mut effects);
        before.into_iter().for_each(|region| {
            if self.service.moves().all(|other| other != region) {
                self.learn(region);
            }
        });
        self.follow(&effects);
    }

    fn is_moving(&self, region: ObjectId) -> bool {
        self.words.get(&region).is_some_and(|(state, _)| *state == State::Moving)
    }

    fn took(&mut self, asker: &Asker, handle: ObjectId) {
        let granted = self.service.granted(asker.session, handle, 0).unwrap();
        self.open.entry(asker.session).or_default().push(handle);
        if !granted.direct {
            return assert_eq!(granted.pieces, []);
        }
        assert!(asker.maps, "a session that maps nothing was told to");
        let is_in = !self.is_moving(granted.region);
        let (region, pieces) = (granted.region, granted.pieces);
        let touch = Touch { region, pieces, by_loop: false, is_in };
        self.touches.insert((asker.session, handle), touch);
    }

    fn gave_back(&mut self, session: ObjectId, handle: ObjectId) {
        let all = self.open.get_mut(&session).unwrap();
        all.retain(|other| *other != handle);
        if self.touches.get(&(session, handle)).is_some_and(|touch| !touch.by_loop) {
            self.touches.remove(&(session, handle));
        }
    }

    fn end(&mut self, session: u32, effects: &mut Vec<Effect>) {
        let id = self.session(session);
        self.service.end(id, effects);
        self.open.remove(&id);
        *self.generations.entry(session).or_insert(1) += 1;
        self.touches.retain(|(session, _), touch| touch.by_loop || *session != id);
        // The loop is told that the session has ended.
        let its = self.touches.keys().filter(|(session, _)| *session == id);
        self.owed.extend(its.map(|whose| Owed::LetGo(*whose)));
    }

    fn unserve(&mut self, session: u32) {
        let id = self.session(session);
        self.service.unserve(id);
        let its = self.touches.iter().filter(|((its, _), touch)| *its == id && touch.by_loop);
        let owed: Vec<_> = its.map(|(whose, _)| Owed::LetGo(*whose)).collect();
        // The loop tells of each once, whatever has ended it.
        self.owed.extend(owed.into_iter().filter(|it| !self.owed.contains(it)).collect::<Vec<_>>());
    }

    fn answer(&mut self, all: bool) {
        let count = if all { self.owed.len() } else { self.owed.len().min(1) };
        for owed in self.owed.drain(..count).collect::<Vec<_>>() {
            let mut effects = Vec::new();
            match owed {
                Owed::LetGo(whose) => {
                    self.touches.remove(&whose);
                    self.service.let_go(whose.0, whose.1, &mut effects);
                }
                Owed::Left(session, region, 0) => {
                    self.touches
                        .retain(|(its, _), touch| *its != session || touch.region != region);
                    self.service.left(region, 0, |its| its == session, &mut effects);
                }
                Owed::Left(session, region, epoch) => {
                    let is_now = self.words.get(&region) == Some(&(State::Moving, epoch));
                    let of_it = self.touches.iter_mut().filter(|((its, _), touch)| {
                        is_now && *its == session && touch.region == region && touch.by_loop
                    });
                    of_it.for_each(|(_, touch)| touch.is_in = false);
                    self.service.left(region, epoch, |its| its == session, &mut effects);
                }
                Owed::Out(region, whose) if self.is_moving(region) => {
                    self.touches.get_mut(&whose).into_iter().for_each(|it| it.is_in = false);
                    self.service.is_out(region, whose, &mut effects);
                }
                Owed::Out(..) => {}
                Owed::Copied(region) => self.end_move(region, region.index % 4 != 3),
            }
            self.follow(&effects);
        }
    }

    fn follow(&mut self, effects: &[Effect]) {
        for effect in effects {
            match *effect {
                Effect::Word(region, state, epoch) => {
                    self.words.insert(region, (state, epoch));
                }
                Effect::Copy(region) => {
                    let is_in = |it: &&Touch| it.region == region && it.is_in;
                    let found = self.touches.values().find(is_in);
                    assert!(found.is_none(), "{found:?} may be in what is copied");
                    self.owed.push(Owed::Copied(region));
                }
                Effect::Erase(piece) => {
                    self.check_untouched(piece.arena, piece.offset, piece.end())
                }
                Effect::ArenaGone(arena) => {
                    self.check_untouched(arena, 0, u64::MAX);
                    assert!(self.arenas.remove(&arena).is_some(), "an arena ended twice");
                }
                Effect::Open { session, handle } => self.open_on_loop(session, handle),
                Effect::Close { session, handle } => {
                    let touched = self.touches.get(&(session, handle));
                    assert!(touched.is_none_or(|touch| touch.by_loop), "told of one that maps");
                    self.owed.push(Owed::LetGo((session, handle)));
                }
                Effect::Leave { session, region, epoch } => {
                    self.owed.push(Owed::Left(session, region, epoch));
                }
                Effect::Unmanaged(region) => {
                    assert!(self.left.remove(&region), "nobody managed it twice");
                }
                Effect::Place { .. } | Effect::Ring(_) => {}
            }
        }
    }

    fn open_on_loop(&mut self, session: ObjectId, handle: ObjectId) {
        // It may have been given back in the same breath.
        let Some((region, _)) = self.service.handle(session, handle) else { return };
        let pieces = self.service.pieces(region).unwrap().0.to_vec();
        let is_in = !self.is_moving(region);
        let touch = Touch { region, pieces, by_loop: true, is_in };
        assert!(self.touches.insert((session, handle), touch).is_none(), "opened twice");
    }

    fn check_untouched(&self, arena: ObjectId, start: u64, end: u64) {
        let meets =
            |piece: &Piece| piece.arena == arena && piece.offset < end && start < piece.end();
        let found = self.touches.iter().find(|(_, touch)| touch.pieces.iter().any(meets));
        assert!(found.is_none(), "{found:?} may still touch what is given to others");
    }

    fn check(&self) {
        let mut all: Vec<Piece> = Vec::new();
        for (id, region) in self.service.regions.iter() {
            let state = if region.moving.is_some() { State::Moving } else { State::Live };
            assert_eq!(self.words.get(&id), Some(&(state, region.epoch)));
            assert_eq!(self.service.moving.contains(&id), region.moving.is_some());
            all.extend(region.moving.iter().flat_map(|moving| &moving.pieces));
            assert!(region.lasting || region.managers > 0, "nobody manages {id}");
            all.extend(&region.pieces);
        }
        for (id, retired) in &self.service.retired {
            assert_eq!(self.words.get(id), Some(&(State::Gone, 0)));
            assert!(!retired.holds.is_empty());
            all.extend(&retired.pieces);
        }
        all.sort_by_key(|piece| (piece.arena, piece.offset));
        for pair in all.windows(2) {
            let is_apart = pair[0].arena != pair[1].arena || pair[0].end() <= pair[1].offset;
            assert!(is_apart, "two regions have the same bytes: {pair:?}");
        }
        assert!(all.iter().all(|piece| piece.end() <= self.arenas[&piece.arena]));
        let taken: u64 = all.iter().map(|piece| piece.bytes).sum();
        assert_eq!(self.service.arena_count(), (self.arenas.len(), taken));
        assert_eq!(self.service.byte_quota.used_by_all(), taken);
        assert_eq!(self.service.region_quota.used_by_all(), self.service.regions.len() as u64);
        for (key, region) in &self.service.names {
            assert_eq!(self.service.regions.get(*region).unwrap().name.as_ref(), Some(&key.name));
        }
    }
}

proptest! {
    #[test]
    fn any_order_of_requests_keeps_every_promise(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.apply(step);
            world.check();
        }
        for index in 0..6 {
            world.apply(&Step::End { session: index });
        }
        while !world.owed.is_empty() {
            world.apply(&Step::Loop { all: true });
        }
        world.check();
        prop_assert!(world.service.moving.is_empty(), "a move that nobody ends");
        let service = &world.service;
        prop_assert!(service.retired.is_empty() && service.leaving.is_empty());
        prop_assert!(service.revoked.is_empty());
        prop_assert!(world.left.is_empty(), "what has left is managed here for ever");
        prop_assert_eq!(service.handles.quota().used_by_all(), 0);
        // What lasts is there, and nothing else.
        let lasting = service.regions.iter().filter(|(_, region)| region.lasting).count();
        prop_assert_eq!(lasting, service.region_count());
        let pieces = service.regions.iter().flat_map(|(_, region)| &region.pieces);
        let used: HashSet<_> = pieces.map(|piece| piece.arena).collect();
        prop_assert_eq!(world.arenas.len(), used.len(), "an arena is kept for nobody");
    }
}
