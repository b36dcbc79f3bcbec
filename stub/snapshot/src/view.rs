//! A version in one piece of memory, as if it were the producer's own.
//!
//! A version that has one colour lies in one piece in the pool, which the consumer has mapped
//! already: its view is a pointer. Any other version is put together from pieces, each mapped to
//! its place in a range of addresses of the view's own. A view that has begun with pieces stays
//! with them: few of them differ from one version to the next.

use std::sync::Arc;

use heliostat_abi::snapshot::memory::CHUNK_BYTES;
use heliostat_base::mapping::{OutOfRange, Patchwork};

use super::version::{AttachError, Version};

/// What no chunk of a patchwork shows yet.
const NOTHING: u8 = u8::MAX;

/// A contiguous view of one version at a time; going on to another maps only chunks that differ,
/// and nothing at all where the version lies in one piece.
pub struct View {
    /// Made with the first version that has more than one colour; without them, the version shown
    /// has one.
    pieces: Option<Patchwork>,
    /// By chunk, the colour that the pieces show.
    colours: Vec<u8>,
    version: Option<Version>,
}

impl View {
    /// A view of `version`.
    pub fn new(version: Version) -> Result<Self, AttachError> {
        let mut view = Self { pieces: None, colours: Vec::new(), version: None };
        view.advance(version)?;
        Ok(view)
    }

    /// Shows another version; the old one is let go, and the region's first byte may lie elsewhere
    /// than before (`as_ptr`). Answers how many pieces were mapped: all of them for a version of
    /// another attachment. After an error nothing but another `advance` makes sense.
    pub fn advance(&mut self, version: Version) -> Result<usize, AttachError> {
        let is_same = |shown: &Version| Arc::ptr_eq(&shown.region.0, &version.region.0);
        if !self.version.as_ref().is_some_and(is_same) {
            // What is mapped shows another pool, whose colours mean other bytes.
            self.colours = vec![NOTHING; version.colours.len()];
            (self.pieces, self.version) = (None, None);
        }
        let is_whole = self.pieces.is_none() && slab_colour(&version).is_some();
        let pieces = if is_whole { 0 } else { self.patch(&version)? };
        self.version = Some(version);
        Ok(pieces)
    }

    /// Maps the chunks in which the pieces differ from `version`.
    fn patch(&mut self, version: &Version) -> Result<usize, AttachError> {
        let (wanted, shape) = (&version.colours, version.region.shape());
        let reserved = match self.pieces.take() {
            Some(pieces) => pieces,
            None => Patchwork::reserve(wanted.len() * CHUNK_BYTES).map_err(AttachError::Memory)?,
        };
        let shown = self.pieces.insert(reserved);
        let (mut chunk, mut pieces) = (0, 0);
        while chunk < wanted.len() {
            let colour = wanted[chunk];
            let differs = |at: &usize| wanted[*at] == colour && self.colours[*at] != colour;
            let run = (chunk..wanted.len()).take_while(differs).count();
            if run > 0 {
                // Neighbours of one colour are neighbours in the pool too: one piece.
                let slot = shape.slot(colour as usize, chunk);
                let (at, fd) = (chunk * CHUNK_BYTES, &version.region.0.pool_fd);
                let done = shown.show(at, fd, slot, run * CHUNK_BYTES);
                done.map_err(AttachError::Memory)?;
                self.colours[chunk..chunk + run].fill(colour);
                pieces += 1;
            }
            chunk += run.max(1);
        }
        Ok(pieces)
    }

    /// The version shown.
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// The region's first byte, good for the version's length while this view shows it.
    pub fn as_ptr(&self) -> *const u8 {
        let Some(version) = &self.version else { return std::ptr::null() };
        let shape = version.region.shape();
        let start = match (&self.pieces, version.colours.first()) {
            (Some(pieces), _) => pieces.as_ptr(),
            (None, Some(colour)) => {
                let pool = version.region.0.pool.as_ptr().cast_const();
                pool.wrapping_add(shape.slot(*colour as usize, 0))
            }
            (None, None) => return std::ptr::null(),
        };
        start.wrapping_add(shape.first as usize)
    }

    /// Copies bytes out, from `offset` of the region.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        let Some(version) = &self.version else {
            return Err(OutOfRange { offset, len: into.len(), limit: 0 });
        };
        let Some(pieces) = &self.pieces else { return version.read(offset, into) };
        OutOfRange::check(offset, into.len(), version.len())?;
        pieces.copy_out(version.region.shape().first as usize + offset, into)
    }
}

/// The one colour of a version that lies in one piece.
fn slab_colour(version: &Version) -> Option<u8> {
    let colour = *version.colours.first()?;
    version.colours.iter().all(|other| *other == colour).then_some(colour)
}
