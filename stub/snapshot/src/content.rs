//! What a version is made from: live memory, of which the pages written are copied into the pool
//! (`copied.rs`), or memory that lies in the pool itself (`remapped.rs`).

use std::ops::Range;

use heliostat_abi::snapshot::memory::Shape;
use heliostat_backend_pages::remap::Remapped;

use super::alive::{AliveByPlace, Made};
use super::copied::Copied;
use super::outcome::PublishError;
use super::remapped::{Remap, PLACES_WANTED};
use super::walk::Walk;

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
