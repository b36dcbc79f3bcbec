//! What setting a region up and publishing it answer.

use heliostat_backend_pages::remap::RemapError;
use heliostat_backend_pages::track::TrackError;

use super::pool::PoolError;
use super::source::SourceError;

/// Why there is no new version. What was written is not forgotten: it goes into the next one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PublishError {
    /// All places are taken by versions that consumers pin, or that the policy keeps; all but one
    /// for memory that is remapped.
    Full {
        /// Versions alive.
        alive: usize,
    },
    /// All places are taken, and for good: the control plane did not tell who reads the region
    /// (it is gone, or this session's names were taken back), or there was no memory for whom it
    /// told of. What a consumer unknown may read is kept.
    Lost,
    /// The kernel did not say what was written.
    Track(TrackError),
    /// Bytes could not be copied, or a range lies outside the region.
    Source(SourceError),
    /// Memory of `Region::allocate` could not be sealed or made ready.
    Remap(RemapError),
}

impl std::fmt::Display for PublishError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full { alive } => write!(
                f,
                "all {alive} versions alive are pinned or kept; wait for consumers, or use more colours"
            ),
            Self::Lost => f.write_str(LOST),
            Self::Track(error) => error.fmt(f),
            Self::Source(error) => error.fmt(f),
            Self::Remap(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for PublishError {}

/// Of a region or queue that cannot know any more who reads it.
pub(super) const LOST: &str =
    "the control plane does not tell any more who reads this, so nothing \
                               is used again; make it anew under its name";

/// A new version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// Its number, greater than that of the version before.
    pub number: u64,
    /// Bytes of pages written since the version before.
    pub dirty_bytes: usize,
    /// Bytes copied for it.
    pub copied_bytes: usize,
    /// Somebody wrote while it was made, so it may be torn. `None` when nobody looked, or nothing
    /// was seen and a part is not watched, because it is written in every version.
    pub has_raced: Option<bool>,
}

/// What a region has done since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metrics {
    /// Versions published.
    pub published: u64,
    /// Publishings that found no place.
    pub skipped: u64,
    /// Publishings that had to wait.
    pub stalled: u64,
    /// Bytes copied for all of them.
    pub copied_bytes: u64,
    /// Bytes of memory that the pool takes now; what was used once stays until the region ends.
    pub pool_bytes: u64,
}

/// Why a region could not be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegionError {
    /// Empty, longer than 1 TiB divided by its colours (256 GiB with 4 of them), or colours outside theirs, or more versions kept than colours.
    Shape,
    /// Its memory could not be made.
    Memory(PoolError),
    /// The engine asked for does not work here.
    Track(TrackError),
    /// Memory to be remapped could not be made.
    Remap(RemapError),
}

impl std::fmt::Display for RegionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shape => f.write_str(
                "a region has 2 to 16 colours (at least 3 if its memory is remapped), 1 byte to \
                 1 TiB divided by its colours, and keeps fewer versions than colours",
            ),
            Self::Memory(error) => error.fmt(f),
            Self::Track(error) => error.fmt(f),
            Self::Remap(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for RegionError {}
