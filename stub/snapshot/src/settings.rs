//! What a producer may choose about a region.

use std::time::Duration;

/// How writes become known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EngineKind {
    /// By the kernel where it can; else, and below 128 KiB, every version is a whole copy.
    #[default]
    Probed,
    /// By the kernel, or not at all.
    Tracked,
    /// By the program (`Region::declare`).
    Declared,
    /// Not: every version is a whole copy.
    Whole,
}

/// Where versions lie in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// As a slab up to 256 MiB, above that by chunks.
    #[default]
    Probed,
    /// Each changed chunk of 2 MiB gets a slot: memory for what changed. A contiguous view maps
    /// the chunks that differ.
    Chunks,
    /// Each version lies in one piece: memory for whole copies, two at least. A contiguous view
    /// is a pointer into what the consumer has mapped anyway.
    Slab,
}

/// Up to this many bytes versions are slabs. In time they never cross (`bench/snapshot --part
/// placement`, 64 MiB, 256 MiB and 1 GiB, two busy cores): with a reader that goes through each
/// version, a slab's cycle is 1.2 to 1.9 times as fast at 0.1, 10 and 100 % written, since a kept
/// view maps nothing (1 us against 5 to 75 ms up to 256 MiB); publishing alone is 0.72 to 0.87
/// times as fast at 0.1 %, as fast at 10 and 100 %. What crosses is memory: a slab takes a whole
/// copy where a chunk takes 2 MiB, so two and up to `colours` times the region however little is
/// written. Half a GiB for that is small on a machine that runs such programs; 2 GiB are not.
const SLAB_BYTES_MAX: usize = 256 << 20;

impl Placement {
    /// Whether versions of a region whose chunks take `bytes` are slabs.
    pub(super) fn is_slab(self, bytes: usize) -> bool {
        match self {
            Self::Probed => bytes <= SLAB_BYTES_MAX,
            Self::Chunks => false,
            Self::Slab => true,
        }
    }
}

/// Which versions stay, and what happens when all places are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The newest so many versions stay, pinned or not; at least 1.
    pub keep: usize,
    /// How long a publishing waits for a consumer to let go of a version; zero: not at all, the
    /// publishing is skipped and its writes go into the next.
    pub patience: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self { keep: 1, patience: Duration::ZERO }
    }
}

/// How a region is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Versions that may be alive together, plus one in the making; memory for so many copies of
    /// a chunk is used at most.
    pub colours: u32,
    /// Which versions stay.
    pub policy: Policy,
    /// How writes become known.
    pub engine: EngineKind,
    /// Where versions lie in the pool.
    pub placement: Placement,
    /// Counts producers of this region, 1 for the first.
    pub generation: u64,
    /// Look after every copy whether somebody wrote meanwhile.
    pub looks_for_races: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let (policy, engine) = (Policy::default(), EngineKind::default());
        let placement = Placement::default();
        Self { colours: 4, policy, engine, placement, generation: 1, looks_for_races: false }
    }
}
