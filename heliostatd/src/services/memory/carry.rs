//! Carries out what the memory service decided: words, bytes that become zeros, orders to loops.

use std::collections::HashSet;
use std::sync::Arc;

use heliostat_abi::memory::Piece;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::Area;
use heliostat_server_memory::{Hold, MemoryOrder};
use heliostat_service_grant::is_of_peer;
use heliostat_service_memory::Effect;
use rustix::net::{send, SendFlags};
use tracing::{error, warn};

use crate::daemon::Daemon;
use crate::state::memory::RegionMemory;

impl Daemon {
    /// Carries effects out. Bytes are erased last, and in runs: a session that ends may have left a
    /// hundred thousand regions beside each other.
    pub(super) fn carry_out_memory(&mut self, mut effects: Vec<Effect>) {
        let mut erased = Vec::new();
        let mut gone = HashSet::new();
        // What a loop lets go of at once brings further effects.
        while !effects.is_empty() {
            for effect in std::mem::take(&mut effects) {
                match effect {
                    Effect::Word(region, state, epoch) => {
                        self.services.memory.page.words.set(region, state, epoch);
                    }
                    Effect::Erase(piece) => erased.push(piece),
                    Effect::ArenaGone(arena) => {
                        gone.insert(arena);
                        self.close_arena(arena);
                    }
                    Effect::Ring(session) => self.ring_memory(session),
                    Effect::Open { session, handle } => self.open_memory(session, handle),
                    Effect::Close { session, handle } => {
                        self.close_memory(session, handle, &mut effects);
                    }
                    Effect::Place { session, region } => self.place_memory(session, region),
                    Effect::Leave { session, region, epoch } => {
                        self.leave_region(session, (region, epoch), &mut effects);
                    }
                    Effect::Copy(region) => self.begin_copy(region, &mut effects),
                    Effect::Unmanaged(region) => self.give_keeper_back(region),
                }
            }
        }
        erased.retain(|piece| !gone.contains(&piece.arena));
        merged(erased).iter().for_each(|piece| self.services.memory.erase(piece));
    }

    /// The last close of a large arena takes the kernel its time.
    fn close_arena(&mut self, id: ObjectId) {
        let Some(arena) = self.services.memory.arenas.remove(&id) else { return };
        // Answers on their way may still have it, and then it is closed with them.
        let (holder, fd, mapping) = arena.into_parts();
        if let Ok(fd) = std::rc::Rc::try_unwrap(fd) {
            self.closer.of(holder).close_memory(fd, mapping);
        }
    }

    fn open_memory(&mut self, session: ObjectId, handle: ObjectId) {
        let meter = self.meter_of_memory(session, handle);
        let memory = &mut self.services.memory;
        // It may have been given back, or lost, in the same breath.
        let Some((region, rights)) = memory.grants.handle(session, handle) else { return };
        if let Some(meter) = meter {
            match is_of_peer(session) {
                true => memory.across.holds.limit(session, handle, meter),
                false => {
                    memory.tell(session, MemoryOrder::Limit { session, handle, meter });
                }
            }
        }
        let told = memory.area(region).is_some_and(|(area, epoch)| {
            let hold = Hold { session, handle, region, rights, area, epoch };
            if is_of_peer(session) {
                return memory.across.holds.hold(hold);
            }
            memory.tell(session, MemoryOrder::Hold(Box::new(hold)))
        });
        if !told {
            memory.grants.not_served(session, handle);
        }
    }

    fn close_memory(&mut self, session: ObjectId, handle: ObjectId, effects: &mut Vec<Effect>) {
        let memory = &mut self.services.memory;
        if is_of_peer(session) {
            memory.across.holds.drop_handle(session, handle);
            return memory.grants.let_go(session, handle, effects);
        }
        if !memory.tell(session, MemoryOrder::Drop { session, handle }) && memory.loops.is_none() {
            memory.grants.let_go(session, handle, effects);
        }
    }

    /// The region's word says that it is gone, or moves. The loop says when it is on its bytes no more;
    /// of the node's thread it is known at once.
    fn leave_region(
        &mut self,
        session: ObjectId,
        (region, epoch): (ObjectId, u32),
        effects: &mut Vec<Effect>,
    ) {
        let memory = &mut self.services.memory;
        if is_of_peer(session) {
            memory.across.holds.settle();
            return memory.grants.left(region, epoch, |other| other == session, effects);
        }
        memory.tell(session, MemoryOrder::Leave { region, epoch });
    }

    fn place_memory(&mut self, session: ObjectId, region: ObjectId) {
        let memory = &mut self.services.memory;
        if is_of_peer(session) {
            return match memory.area(region) {
                Some((area, epoch)) => {
                    memory.across.holds.place(session, region, &area, epoch);
                }
                None => memory.across.holds.lose(session, region),
            };
        }
        // Operations wait for one or the other, since the word says already that it has changed.
        let order = match memory.area(region) {
            Some((area, epoch)) => MemoryOrder::Place { region, area, epoch },
            None => MemoryOrder::Lose { region },
        };
        memory.tell(session, order);
    }

    fn ring_memory(&self, session: ObjectId) {
        if let Some(bell) = self.services.memory.bells.get(&session) {
            // Where it is full its owner has not looked for long, and will.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = send(bell, &[1], flags);
        }
    }
}

impl RegionMemory {
    /// Tells the loop that serves a session something; whether there is one.
    pub(super) fn tell(&self, session: ObjectId, order: MemoryOrder) -> bool {
        self.loops.as_ref().is_some_and(|loops| loops.tell(session, order))
    }

    /// Where a region lies, for a loop, and the epoch for which that holds. `None` for one that is gone, or cannot be mapped here.
    pub(super) fn area(&mut self, region: ObjectId) -> Option<(Arc<Area>, u32)> {
        let epoch = self.grants.epoch(region)?;
        let (pieces, bytes) = self.grants.pieces(region)?;
        let arenas = &mut self.arenas;
        let mut list = Vec::new();
        for piece in pieces {
            let mapped = arenas.get_mut(&piece.arena)?.mapping();
            let mapping = mapped.map_err(|error| warn!(%region, %error, "no place for an arena"));
            list.push((mapping.ok()?, piece.offset, piece.bytes));
        }
        let area = Area::new(list, bytes);
        area.map_err(|error| error!(%region, ?error, "a region's pieces do not fit"))
            .ok()
            .map(|area| (Arc::new(area), epoch))
    }

    /// Makes bytes zero; those that cannot be are given to nobody.
    fn erase(&mut self, piece: &Piece) {
        let Some(arena) = self.arenas.get(&piece.arena) else { return };
        if let Err(error) = arena.erase(piece.offset, piece.bytes) {
            error!(arena = %piece.arena, %error, "bytes of a region stay what they were, for nobody");
            self.grants.withhold(piece);
        }
    }
}

/// Pieces that touch become one.
fn merged(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_unstable_by_key(|piece| (piece.arena, piece.offset));
    let mut runs: Vec<Piece> = Vec::new();
    for piece in pieces {
        match runs.last_mut() {
            Some(run) if run.arena == piece.arena && run.end() == piece.offset => {
                run.bytes += piece.bytes;
            }
            _ => runs.push(piece),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_touch_are_erased_at_once_and_those_of_other_arenas_are_not() {
        let piece = |index, offset, bytes| Piece {
            arena: ObjectId { index, generation: 1 },
            offset,
            bytes,
        };
        let all = vec![piece(1, 128, 64), piece(2, 64, 64), piece(1, 0, 64), piece(1, 64, 64)];
        assert_eq!(merged(all), [piece(1, 0, 192), piece(2, 64, 64)]);
        assert_eq!(merged(vec![piece(1, 0, 64), piece(1, 128, 64)]).len(), 2);
    }
}
