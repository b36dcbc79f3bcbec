//! Versions of live memory, of which the pages written are copied into the pool.
//!
//! Two ways to place the copies, of one format: *chunks* gives each changed chunk a slot of its
//! own colour, *slab* gives a whole version one colour, so that it lies in one piece in the pool.

use heliostat_abi::snapshot::{Shape, CHUNK_BYTES};
use heliostat_base::mapping::SharedMapping;

use super::content::{newest, shown, AliveByPlace, Made};
use super::engine::Engine;
use super::ledger::{Ledger, PAGE_BYTES};
use super::outcome::PublishError;
use super::source::{Source, SourceError};

/// From the first byte, as much as there is.
const ALL: (usize, usize) = (0, usize::MAX);

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

impl Copied {
    /// Version `number` of the memory as it is now.
    pub(super) fn make(
        &mut self,
        number: u64,
        alive: &AliveByPlace,
        shape: Shape,
    ) -> Result<Made, PublishError> {
        let noted = self.note(number, alive, false)?;
        // Of the first version everything is news, also what its books begin with.
        let dirty_bytes = newest(alive).map_or(shape.length as usize, |_| noted);
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
