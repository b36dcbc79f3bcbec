//! Versions of live memory, of which the pages written are copied into the pool.
//!
//! Two ways to place the copies, of one format: *chunks* gives each changed chunk a slot of its
//! own colour, *slab* gives a whole version one colour, so that it lies in one piece in the pool.

use heliostat_abi::snapshot::memory::{Shape, CHUNK_BYTES};
use heliostat_backend_pages::live::Piece;
use heliostat_base::mapping::{SharedMapping, HUGE_BYTES};

use super::alive::{newest, shown, AliveByPlace, Made};
use super::engine::Engine;
use super::ledger::{Ledger, PoolSlot, PAGE_BYTES};
use super::outcome::PublishError;
use super::source::{Source, SourceError};

/// What of a slot is copied at once.
#[derive(Clone, Copy)]
pub(super) struct Portion {
    /// The byte of the region to begin with.
    pub(super) at: usize,
    /// Bytes at most, rounded up to pages.
    pub(super) budget: usize,
}

const ALL: Portion = Portion { at: 0, budget: usize::MAX };

/// After so many refusals the kernel is not asked for huge pages any more: each may have looked
/// for memory to move first.
const REFUSALS_MAX: u8 = 4;

// A slot is a huge page, so that one can be asked for under it.
const _: () = assert!(CHUNK_BYTES == HUGE_BYTES);

/// Live memory that is copied.
pub(super) struct Copied {
    pub(super) memory: Box<dyn Source>,
    pub(super) engine: Box<dyn Engine>,
    pub(super) ledger: Ledger,
    pub(super) pool: SharedMapping,
    /// One colour for a whole version.
    pub(super) is_slab: bool,
    pub(super) looks_for_races: bool,
    /// How often the kernel refused a huge page.
    pub(super) refusals: u8,
    /// What is being copied; kept for its room.
    pub(super) pieces: Vec<Piece>,
}

impl Copied {
    /// Version `number` of the memory as it is now.
    pub(super) fn make(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
        shape: Shape,
    ) -> Result<Made, PublishError> {
        let dirty_bytes = self.news(number, alive, shape)?;
        let (colours, slots) = self.plan(alive, shape);
        let mut copied_bytes = 0;
        for slot in slots {
            let filled = self.fill(slot, number, shape, ALL);
            copied_bytes += filled.map_err(PublishError::Source)?.0;
        }
        let has_raced = self.looks_for_races.then(|| self.engine.has_raced()).flatten();
        Ok(Made { colours, dirty_bytes, copied_bytes, has_raced })
    }

    /// Asks what was written for version `number`; bytes of pages not noted since the newest.
    pub(super) fn news(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
        shape: Shape,
    ) -> Result<usize, PublishError> {
        let noted = self.note(number, alive, false)?;
        // Of the first version everything is news, also what its books begin with.
        Ok(newest(alive).map_or(shape.length as usize, |_| noted))
    }

    /// Asks what was written and notes it under `number`; bytes of pages that were not noted since
    /// the newest version.
    pub(super) fn note(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
        is_ahead: bool,
    ) -> Result<usize, PublishError> {
        let since = newest(alive).map_or(0, |it| it.number);
        let (ledger, mut dirty_bytes) = (&mut self.ledger, 0);
        let mut note = |bytes| dirty_bytes += ledger.note(bytes, number, since);
        match is_ahead {
            true => self.engine.collect_ahead(&mut note),
            false => self.engine.collect(&mut note),
        }
        .map_err(PublishError::Track)?;
        Ok(dirty_bytes)
    }

    /// The colours of a version of what is noted now, and the slots that have to be brought up to
    /// date for it.
    pub(super) fn plan(&self, alive: &AliveByPlace, shape: Shape) -> (Vec<u8>, Vec<PoolSlot>) {
        let chunks = 0..shape.chunks as usize;
        let (mut colours, since) =
            newest(alive).map_or((vec![0; chunks.len()], 0), |it| (it.colours.clone(), it.number));
        // Since the version shown, not since the last attempt: one may have failed between.
        let is_changed = |chunk: &usize| self.ledger.is_changed_since(*chunk, since);
        // One place is free, so fewer versions than colours are alive: there is a colour.
        let choose = |chunk| self.ledger.choose(chunk, shown(alive, chunk)).unwrap_or(0);
        let slots: Vec<PoolSlot> = match self.is_slab {
            false => chunks
                .filter(is_changed)
                .map(|chunk| PoolSlot { chunk, colour: choose(chunk) })
                .collect(),
            true if !chunks.clone().any(|chunk| is_changed(&chunk)) => Vec::new(),
            true => {
                let colour = choose(0);
                chunks.map(|chunk| PoolSlot { chunk, colour }).collect()
            }
        };
        slots.iter().for_each(|slot| colours[slot.chunk] = slot.colour as u8);
        (colours, slots)
    }

    /// Copies what a slot lacks, a portion of it. Answers bytes copied, and where to go on if the slot
    /// lacks more.
    pub(super) fn fill(
        &mut self,
        slot: PoolSlot,
        number: u64,
        shape: Shape,
        Portion { at, budget }: Portion,
    ) -> Result<(usize, Option<usize>), SourceError> {
        let PoolSlot { chunk, colour } = slot;
        if at == 0 {
            self.gather(slot, shape);
        }
        let (mut copied, mut next) = (0, None);
        self.pieces.clear();
        for run in self.ledger.stale(chunk, colour).filter(|run| run.end > at) {
            let start = run.start.max(at);
            // Rounded up, it may be more than the budget already.
            if copied >= budget {
                next = Some(start);
                break;
            }
            let end = start.saturating_add(budget - copied).min(run.end);
            let end = end.next_multiple_of(PAGE_BYTES).min(run.end);
            let (offset, len) = (start - shape.first as usize, end - start);
            let at = shape.slot(colour, chunk) + start - chunk * CHUNK_BYTES;
            self.pieces.push(Piece { offset, at, len });
            copied += len;
            if end < run.end {
                next = Some(end);
                break;
            }
        }
        self.memory.copy_pieces_to(&self.pieces, &self.pool)?;
        if next.is_none() {
            self.ledger.filled(chunk, colour, number);
        }
        Ok((copied, next))
    }

    /// Asks for a huge page under a slot that is used for the first time and will be full: one
    /// fault takes the place of 512, for the producer and for each consumer that maps it, and
    /// copies that jump from page to page find their way sooner. Refused, it stays as it is.
    pub(super) fn gather(&mut self, slot: PoolSlot, shape: Shape) {
        let PoolSlot { chunk, colour } = slot;
        let is_full = (chunk + 1) * CHUNK_BYTES <= shape.span().end;
        let is_asked = self.ledger.is_unused(chunk, colour) && is_full;
        if is_asked && self.refusals < REFUSALS_MAX {
            let is_huge = self.pool.gather(shape.slot(colour, chunk)).unwrap_or(false);
            self.refusals += u8::from(!is_huge);
        }
    }
}
