//! Where the bytes of a region are copied from.

use heliostat_backend_pages::live::{LiveMemory, Piece};
use heliostat_base::mapping::{OutOfRange, SharedMapping};

/// Why bytes of the region could not be copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceError {
    /// They lie outside the region, or their place outside the pool.
    OutOfRange(OutOfRange),
    /// The process whose memory it is has ended.
    Gone,
    /// Nothing readable is mapped `offset` bytes into the region.
    Unreadable {
        /// From the region's start.
        offset: usize,
    },
}

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OutOfRange(error) => error.fmt(f),
            Self::Gone => f.write_str("the process whose memory it is has ended"),
            Self::Unreadable { offset } => {
                write!(f, "nothing readable is mapped {offset} bytes into the region")
            }
        }
    }
}
impl std::error::Error for SourceError {}

impl From<OutOfRange> for SourceError {
    fn from(error: OutOfRange) -> Self {
        Self::OutOfRange(error)
    }
}

/// Memory that versions are made of: this process's own, or another's that stands still.
pub trait Source: Send {
    /// Address of the first byte, in the process whose memory it is.
    fn start(&self) -> usize;

    /// Bytes.
    fn len(&self) -> usize;

    /// True for no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `len` bytes at `offset` to `at` in `pool`. What was copied before an error stays.
    fn copy_to(
        &self,
        offset: usize,
        pool: &SharedMapping,
        at: usize,
        len: usize,
    ) -> Result<(), SourceError>;

    /// Copies many pieces; some may have been copied before an error.
    fn copy_pieces_to(&self, pieces: &[Piece], pool: &SharedMapping) -> Result<(), SourceError> {
        pieces.iter().try_for_each(|it| self.copy_to(it.offset, pool, it.at, it.len))
    }
}

impl Source for LiveMemory {
    fn start(&self) -> usize {
        LiveMemory::start(self)
    }

    fn len(&self) -> usize {
        LiveMemory::len(self)
    }

    fn copy_to(
        &self,
        offset: usize,
        pool: &SharedMapping,
        at: usize,
        len: usize,
    ) -> Result<(), SourceError> {
        Ok(LiveMemory::copy_to(self, offset, pool, at, len)?)
    }

    fn copy_pieces_to(&self, pieces: &[Piece], pool: &SharedMapping) -> Result<(), SourceError> {
        Ok(LiveMemory::copy_pieces_to(self, pieces, pool)?)
    }
}
