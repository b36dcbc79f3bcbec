//! Versions of memory that the library made: what the program wrote *is* the version.
//!
//! Nothing is copied here: sealing takes the right to write away, and a later store copies its
//! chunk first (`heliostat_backend_pages::remap`). So a store needs a slot that no version alive shows, and
//! cannot wait for one: a version is made only while one more place is free than it takes.

use heliostat_abi::snapshot::memory::Shape;
use heliostat_backend_pages::remap::Remapped;

use super::alive::{shown, AliveByPlace, Made};
use super::outcome::PublishError;

/// Free places that a new version wants: its own, and one for what is written after it.
pub(super) const PLACES_WANTED: usize = 2;

/// Memory that is its own newest version.
pub(super) struct Remap {
    pub(super) memory: Remapped,
    /// By chunk, what the last sealing that reached it said.
    colours: Vec<u8>,
    looks_for_races: bool,
    is_first: bool,
}

impl Remap {
    pub(super) fn new(memory: Remapped, shape: Shape, looks_for_races: bool) -> Self {
        let colours = vec![0; shape.chunks as usize];
        Self { memory, colours, looks_for_races, is_first: true }
    }

    /// The version that the memory is now.
    pub(super) fn make(
        &mut self,
        alive: &AliveByPlace,
        shape: Shape,
    ) -> Result<Made, PublishError> {
        let sealed = self.memory.seal(&mut self.colours, |chunk| shown(alive, chunk));
        let chunks = sealed.map_err(PublishError::Remap)?;
        let has_raced = self.looks_for_races.then(|| self.memory.is_written());
        // The last chunk may be short; which ones were sealed is not worth a list.
        let dirty_bytes = (chunks * shape.chunk_bytes(0)).min(shape.length as usize);
        // What is written before the first version lies in its slots from the start.
        let copied_bytes = if self.is_first { 0 } else { dirty_bytes };
        self.is_first = false;
        Ok(Made { colours: self.colours.clone(), dirty_bytes, copied_bytes, has_raced })
    }
}
