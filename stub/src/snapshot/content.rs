//! What a version is made from: live memory, of which the pages written are copied into the pool,
//! or memory that lies in the pool itself (`remapped.rs`).
//!
//! Two ways to place the copies, of one format: *chunks* gives each changed chunk a slot of its
//! own colour, *slab* gives a whole version one colour, so that it lies in one piece in the pool.

use std::ops::Range;

use heliostat_abi::snapshot::{Shape, CHUNK_BYTES};
use heliostat_base::mapping::SharedMapping;
use heliostat_base::remap::Remapped;

use super::ahead::Walk;
use super::engine::Engine;
use super::ledger::{Ledger, PAGE_BYTES};
use super::outcome::PublishError;
use super::remapped::{Remap, PLACES_WANTED};
use super::source::{Source, SourceError};

/// From the first byte, as much as there is.
const ALL: (usize, usize) = (0, usize::MAX);

/// A version that consumers may see.
pub(super) struct Alive {
    pub(super) number: u64,
    pub(super) colours: Vec<u8>,
}

/// The versions that consumers may see, by place.
pub(super) type AliveByPlace = [Option<Alive>];

/// What a version consists of, before anybody is told of it.
pub(super) struct Made {
    pub(super) colours: Vec<u8>,
    pub(super) dirty_bytes: usize,
    pub(super) copied_bytes: usize,
    pub(super) has_raced: Option<bool>,
}

/// One or the other.
pub(super) enum Content {
    Copied(Copied),
    Remapped(Remap),
}

impl Content {
    pub(super) fn remapped(memory: Remapped, shape: Shape, looks_for_races: bool) -> Self {
        Self::Remapped(Remap::new(memory, shape, looks_for_races))
    }

    /// How writes become known.
    pub(super) fn engine(&self) -> &'static str {
        match self {
            Self::Copied(it) => it.engine.name(),
            Self::Remapped(_) => "remap",
        }
    }

    /// Places that must be free for a new version.
    pub(super) fn places_wanted(&self) -> usize {
        match self {
            Self::Copied(_) => 1,
            Self::Remapped(_) => PLACES_WANTED,
        }
    }

    pub(super) fn allocated(&self) -> Option<(*mut u8, usize)> {
        match self {
            Self::Copied(_) => None,
            Self::Remapped(it) => Some((it.memory.as_ptr(), it.memory.len())),
        }
    }

    pub(super) fn prepare_write(&self, bytes: Range<usize>) -> Result<(), PublishError> {
        match self {
            Self::Copied(_) => Ok(()),
            Self::Remapped(it) => it.memory.prepare_write(bytes).map_err(PublishError::Remap),
        }
    }

    /// The program wrote `bytes`, counted as engines do. Memory that is remapped knows.
    pub(super) fn declare(&mut self, bytes: Range<usize>) {
        match self {
            Self::Copied(it) => it.engine.declare(bytes),
            Self::Remapped(_) => {}
        }
    }

    /// Whether copying ahead of a version spares it anything.
    pub(super) fn gains_ahead(&self) -> bool {
        matches!(self, Self::Copied(it) if it.engine.gains_ahead())
    }

    /// Notes under `number` what was written; bytes not noted since the newest of `alive`.
    pub(super) fn note_ahead(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
    ) -> Result<usize, PublishError> {
        let Self::Copied(it) = self else { return Ok(0) };
        it.note(number, alive, true)
    }

    /// Copies a part of what a round ahead noted; bytes copied.
    pub(super) fn walk(
        &mut self,
        walk: &mut Walk,
        alive: &AliveByPlace,
        shape: Shape,
        budget: usize,
    ) -> Result<usize, PublishError> {
        let Self::Copied(it) = self else { return Ok(0) };
        it.walk(walk, alive, shape, budget).map_err(PublishError::Source)
    }

    /// Version `number` of the memory as it is now, in slots that none of `alive` shows.
    pub(super) fn make(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
        shape: Shape,
    ) -> Result<Made, PublishError> {
        match self {
            Self::Copied(it) => it.make(number, alive, shape),
            Self::Remapped(it) => it.make(alive, shape),
        }
    }
}

/// Live memory that is copied.
pub(super) struct Copied {
    pub(super) memory: Box<dyn Source>,
    pub(super) engine: Box<dyn Engine>,
    pub(super) ledger: Ledger,
    pub(super) pool: SharedMapping,
    /// One colour for a whole version.
    pub(super) is_slab: bool,
    pub(super) looks_for_races: bool,
}

/// The colours that versions alive show of `chunk`, a bit for each.
pub(super) fn shown(alive: &AliveByPlace, chunk: usize) -> u32 {
    alive.iter().flatten().fold(0, |bits, it| bits | 1 << it.colours[chunk])
}

pub(super) fn newest(alive: &AliveByPlace) -> Option<&Alive> {
    alive.iter().flatten().max_by_key(|alive| alive.number)
}

impl Copied {
    fn make(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
        shape: Shape,
    ) -> Result<Made, PublishError> {
        let dirty_bytes = self.note(number, alive, false)?;
        let (colours, copied_bytes) = match self.is_slab {
            true => self.fill_slab(number, alive, shape),
            false => self.fill_chunks(number, alive, shape),
        }
        .map_err(PublishError::Source)?;
        let has_raced = self.looks_for_races.then(|| self.engine.has_raced()).flatten();
        Ok(Made { colours, dirty_bytes, copied_bytes, has_raced })
    }

    /// Asks what was written and notes it under `number`; bytes of pages that were not noted since
    /// the newest version.
    fn note(
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

    /// Brings a free slot of every changed chunk up to date.
    fn fill_chunks(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
        shape: Shape,
    ) -> Result<(Vec<u8>, usize), SourceError> {
        let (mut colours, since) = newest(alive)
            .map_or((vec![0; shape.chunks as usize], 0), |it| (it.colours.clone(), it.number));
        let mut copied = 0;
        for (chunk, shown_now) in colours.iter_mut().enumerate() {
            // Since the version shown, not since the last attempt: one may have failed between.
            if !self.ledger.is_changed_since(chunk, since) {
                continue;
            }
            // One place is free, so fewer versions than colours are alive: there is one.
            let colour = self.ledger.choose(chunk, shown(alive, chunk)).unwrap_or(0);
            copied += self.fill((chunk, colour), number, shape, ALL)?.0;
            *shown_now = colour as u8;
        }
        Ok((colours, copied))
    }

    /// Brings all slots of one free colour up to date.
    fn fill_slab(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
        shape: Shape,
    ) -> Result<(Vec<u8>, usize), SourceError> {
        let chunks = 0..shape.chunks as usize;
        if let Some(it) = newest(alive) {
            let is_same = |chunk| !self.ledger.is_changed_since(chunk, it.number);
            if chunks.clone().all(is_same) {
                return Ok((it.colours.clone(), 0));
            }
        }
        // Every version alive has one colour, and fewer than there are colours: one is free.
        let colour = self.ledger.choose(0, shown(alive, 0)).unwrap_or(0);
        let mut copied = 0;
        for chunk in chunks.clone() {
            copied += self.fill((chunk, colour), number, shape, ALL)?.0;
        }
        Ok((vec![colour as u8; chunks.len()], copied))
    }

    /// Copies what the slot of a chunk in a colour lacks from `at` on, `budget` bytes at most,
    /// rounded up to pages. Answers bytes copied, and where to go on if the slot lacks more.
    pub(super) fn fill(
        &mut self,
        (chunk, colour): (usize, usize),
        number: u64,
        shape: Shape,
        (at, budget): (usize, usize),
    ) -> Result<(usize, Option<usize>), SourceError> {
        let mut copied = 0;
        for run in self.ledger.stale(chunk, colour).filter(|run| run.end > at) {
            let start = run.start.max(at);
            if copied >= budget {
                return Ok((copied, Some(start)));
            }
            let end = start.saturating_add(budget - copied).min(run.end);
            let end = end.next_multiple_of(PAGE_BYTES).min(run.end);
            let to = shape.slot(colour, chunk) + start - chunk * CHUNK_BYTES;
            self.memory.copy_to(start - shape.first as usize, &self.pool, to, end - start)?;
            copied += end - start;
            if end < run.end {
                return Ok((copied, Some(end)));
            }
        }
        self.ledger.filled(chunk, colour, number);
        Ok((copied, None))
    }
}
