//! Moves, as the world beside the service sees them.

use heliostat_abi::memory::page::State;
use heliostat_abi::name::ObjectId;

use super::{asker, Owed, World};
use crate::*;

impl World {
    /// Who may touch a region learns where it lies, and may be in it.
    pub(super) fn learn(&mut self, region: ObjectId) {
        let Some((now, _)) = self.service.pieces(region) else { return };
        let its = self.touches.values_mut().filter(|touch| touch.region == region);
        its.for_each(|touch| {
            touch.pieces = now.to_vec();
            touch.is_in = true;
        });
    }

    pub(super) fn begin_move(&mut self, session: u32, which: usize, effects: &mut Vec<Effect>) {
        let Some(handle) = self.pick(session, which) else { return };
        let asker = asker(self, session);
        let Ok((uid, holder, room)) = self.service.check_move(&asker, handle) else { return };
        let arena = self.room(&Asker { uid, holder, ..asker }, room);
        let region = self.service.begin_move(&asker, handle, arena, 0, effects).unwrap();
        let may_be_in = self.service.may_be_in(region);
        self.owed.extend(may_be_in.into_iter().map(|whose| Owed::Out(region, whose)));
    }

    /// A region is copied, or given up.
    pub(super) fn end_move(&mut self, region: ObjectId, is_copied: bool) {
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

    pub(super) fn depart(&mut self, session: u32, which: usize, effects: &mut Vec<Effect>) {
        let Some(handle) = self.pick(session, which) else { return };
        let asker = asker(self, session);
        let begun = self.service.begin_departure(&asker, handle, 0, effects);
        let Ok(region) = begun else { return };
        let may_be_in = self.service.may_be_in(region);
        self.owed.extend(may_be_in.into_iter().map(|whose| Owed::Out(region, whose)));
    }

    pub(super) fn expire_moves(&mut self) {
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

    pub(super) fn is_moving(&self, region: ObjectId) -> bool {
        self.words.get(&region).is_some_and(|(state, _)| *state == State::Moving)
    }
}
