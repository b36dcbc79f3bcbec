//! What publishing another program's memory comes to.

use heliostat_backend_pages::tracee::TraceError;

use crate::outcome::{PublishError, Published, RegionError};

/// Why there is no version of anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutsideError {
    /// The program could not be stopped or read.
    Trace(TraceError),
    /// A region could not be made.
    Region(RegionError),
}

impl std::fmt::Display for OutsideError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Region(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for OutsideError {}

impl From<TraceError> for OutsideError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

/// What publishing all regions at one stop came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Round {
    /// For how long the first thread stood, in ns.
    pub stopped_ns: u64,
    /// Threads that were stopped.
    pub threads: usize,
    /// Bytes copied before the stop.
    pub ahead_bytes: usize,
    /// Bytes copied while the program stood: of pages written since they were last copied, and of
    /// regions whose writes are not tracked.
    pub stopped_bytes: usize,
    /// By region, its version or why it has none.
    pub versions: Vec<Result<Published, PublishError>>,
}
