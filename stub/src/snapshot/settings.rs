//! What a producer may choose about a region.

use std::time::Duration;

/// How writes become known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EngineKind {
    /// By the kernel where it can, else every version is a whole copy.
    #[default]
    Probed,
    /// By the kernel, or not at all.
    Tracked,
    /// By the program (`Region::declare`).
    Declared,
    /// Not: every version is a whole copy.
    Whole,
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
    /// Counts producers of this region, 1 for the first.
    pub generation: u64,
    /// Look after every copy whether somebody wrote meanwhile.
    pub looks_for_races: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let (policy, engine) = (Policy::default(), EngineKind::default());
        Self { colours: 4, policy, engine, generation: 1, looks_for_races: false }
    }
}
