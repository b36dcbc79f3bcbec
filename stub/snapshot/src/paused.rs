//! A version in two steps, for memory whose writer stands still only for the first of them.
//!
//! A chunk that was first written after the last look ahead gets a slot that may hold nothing of
//! it. Only the pages written since are to be had from nowhere else; all others lie in the pool
//! already, in the slot of another colour that was filled last. So those few are copied while the
//! writer stands, and the slot is completed out of the pool when it runs again.
//!
//! ```text
//! prepare   a place for the version
//! begin     writer stands: ask what was written, copy what no slot has
//! finish    writer runs: copy what other slots have, tell the consumers
//! ```
//!
//! Nothing is asked or noted between the last two, so the books say the same in both. A version
//! that is begun and never finished is one that failed: slots hold less than they might.

use heliostat_abi::snapshot::memory::{Shape, CHUNK_BYTES};
use heliostat_base::mapping::OutOfRange;

use super::alive::{AliveByPlace, Made};
use super::content::Content;
use super::copied::Copied;
use super::door::Host;
use super::ledger::PoolSlot;
use super::outcome::{PublishError, Published};
use super::region::Region;

/// A version that needs nothing of the memory any more, and that nobody has been told of.
pub(super) struct Begun {
    place: usize,
    number: u64,
    made: Made,
    /// By chunk and colour.
    incomplete: Vec<PoolSlot>,
}

impl Begun {
    /// Bytes that were copied from the memory.
    pub(super) fn copied_bytes(&self) -> usize {
        self.made.copied_bytes
    }
}

impl Region {
    /// Finds a place for the next version. Blocks for the policy's patience at most.
    pub(super) fn prepare(&mut self) -> Result<usize, PublishError> {
        self.attend_door();
        self.make_room()
    }

    /// Copies what only the memory has. Nobody may write it meanwhile. Does not wait.
    pub(super) fn begin(&mut self, place: usize) -> Result<Begun, PublishError> {
        self.walk = None;
        // A number is used once, whatever comes of it: slots may hold its bytes already.
        self.next += 1;
        let (number, shape) = (self.next, self.table.shape);
        let (made, incomplete) = self.content.begin(number, &self.alive, shape)?;
        Ok(Begun { place, number, made, incomplete })
    }

    /// Copies what the pool itself has, and publishes.
    pub(super) fn finish(&mut self, begun: Begun) -> Result<Published, PublishError> {
        let Begun { place, number, mut made, incomplete } = begun;
        let completed = self.content.complete(number, &incomplete, self.table.shape);
        made.copied_bytes += completed.map_err(|error| PublishError::Source(error.into()))?;
        self.announce(place, number, made)
    }
}

impl Content {
    fn begin(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
        shape: Shape,
    ) -> Result<(Made, Vec<PoolSlot>), PublishError> {
        match self {
            Self::Copied(it) => it.begin(number, alive, shape),
            Self::Remapped(it) => Ok((it.make(alive, shape)?, Vec::new())),
        }
    }

    fn complete(
        &mut self,
        number: u64,
        slots: &[PoolSlot],
        shape: Shape,
    ) -> Result<usize, OutOfRange> {
        let Self::Copied(it) = self else { return Ok(0) };
        let mut copied = 0;
        for slot in slots {
            copied += it.complete(*slot, number, shape)?;
        }
        Ok(copied)
    }
}

impl Copied {
    fn begin(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
        shape: Shape,
    ) -> Result<(Made, Vec<PoolSlot>), PublishError> {
        let dirty_bytes = self.news(number, alive, shape)?;
        let (colours, slots) = self.plan(alive, shape);
        let mut copied_bytes = 0;
        for PoolSlot { chunk, colour } in slots.iter().copied() {
            let slot = shape.slot(colour, chunk);
            for run in self.ledger.unsaved(chunk) {
                let to = slot + run.start - chunk * CHUNK_BYTES;
                let copied = self.memory.copy_to(
                    run.start - shape.first as usize,
                    &self.pool,
                    to,
                    run.len(),
                );
                copied.map_err(PublishError::Source)?;
                copied_bytes += run.len();
            }
        }
        let has_raced = self.looks_for_races.then(|| self.engine.has_raced()).flatten();
        Ok((Made { colours, dirty_bytes, copied_bytes, has_raced }, slots))
    }

    /// Brings a slot up to date with what another has; bytes copied.
    fn complete(&mut self, slot: PoolSlot, number: u64, shape: Shape) -> Result<usize, OutOfRange> {
        let PoolSlot { chunk, colour } = slot;
        self.gather(slot, shape);
        let (nearest, runs) = self.ledger.saved(chunk, colour);
        let slot = |colour, start: usize| shape.slot(colour, chunk) + start - chunk * CHUNK_BYTES;
        let mut copied = 0;
        for run in runs {
            let (from, to) = (slot(nearest, run.start), slot(colour, run.start));
            self.pool.copy_within(from, to, run.len())?;
            copied += run.len();
        }
        self.ledger.filled(chunk, colour, number);
        Ok(copied)
    }
}
