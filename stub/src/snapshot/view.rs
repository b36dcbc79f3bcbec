//! A version in one piece of memory, as if it were the producer's own.

use heliostat_abi::snapshot::CHUNK_BYTES;
use heliostat_base::mapping::{OutOfRange, Patchwork};

use super::consumer::{AttachError, Version};

/// A contiguous view of one version at a time; going on to another maps only chunks that differ.
pub struct View {
    shown: Patchwork,
    colours: Vec<u8>,
    version: Option<Version>,
}

impl View {
    /// A view of `version`.
    pub fn new(version: Version) -> Result<Self, AttachError> {
        let chunks = version.colours.len();
        let shown = Patchwork::reserve(chunks * CHUNK_BYTES).map_err(AttachError::Memory)?;
        let mut view = Self { shown, colours: vec![u8::MAX; chunks], version: None };
        view.advance(version)?;
        Ok(view)
    }

    /// Shows another version of the same region; the old one is let go. Answers how many pieces
    /// were mapped. After an error nothing but another `advance` makes sense.
    pub fn advance(&mut self, version: Version) -> Result<usize, AttachError> {
        let shape = version.region.shape();
        let (mut chunk, mut pieces) = (0, 0);
        while chunk < version.colours.len() {
            let colour = version.colours[chunk];
            let differs =
                |at: &usize| version.colours[*at] == colour && self.colours[*at] != colour;
            let run = (chunk..version.colours.len()).take_while(differs).count();
            if run > 0 {
                // Neighbours of one colour are neighbours in the pool too: one piece.
                let slot = shape.slot(colour as usize, chunk);
                let (at, fd) = (chunk * CHUNK_BYTES, &version.region.0.pool_fd);
                let shown = self.shown.show(at, fd, slot, run * CHUNK_BYTES);
                shown.map_err(AttachError::Memory)?;
                self.colours[chunk..chunk + run].fill(colour);
                pieces += 1;
            }
            chunk += run.max(1);
        }
        self.version = Some(version);
        Ok(pieces)
    }

    /// The version shown.
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// The region's first byte, good for the version's length while this view shows it.
    pub fn as_ptr(&self) -> *const u8 {
        let first = self.version.as_ref().map_or(0, |it| it.region.shape().first as usize);
        self.shown.as_ptr().wrapping_add(first)
    }

    /// Copies bytes out, from `offset` of the region.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        let Some(version) = &self.version else {
            return Err(OutOfRange { offset, len: into.len(), limit: 0 });
        };
        if offset.checked_add(into.len()).is_none_or(|end| end > version.len()) {
            return Err(OutOfRange { offset, len: into.len(), limit: version.len() });
        }
        self.shown.copy_out(version.region.shape().first as usize + offset, into)
    }
}
