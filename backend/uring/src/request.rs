//! What is said of a request: where its bytes lie, how they are moved, and how it is named.

use heliostat_base::mapping::OutOfRange;

/// Bytes of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First byte.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
}

/// How a transfer is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Manner {
    /// As the file was opened.
    #[default]
    Plain,
    /// To the end of the file, wherever that is (RWF_APPEND).
    Append,
    /// Through the page cache, without leaving there what was not there (RWF_DONTCACHE).
    Uncached,
    /// Past the caches, into memory that may be worth pinning: see [`Uring::forget`](crate::Uring::forget).
    Direct,
    /// The same, and durable when it completes (RWF_DSYNC).
    Durable,
}

/// Names an operation under way, to cancel it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flight(pub(crate) u64);

impl Flight {
    pub(crate) fn of(index: u32) -> Flight {
        Flight(u64::from(index))
    }

    pub(crate) fn index(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }
}

/// Why an operation could not be prepared.
#[derive(Debug)]
pub enum NotPrepared {
    /// As many operations are under way as fit.
    Full,
    /// A range does not lie in its mapping, or may not be written.
    Range(OutOfRange),
}

impl From<OutOfRange> for NotPrepared {
    fn from(error: OutOfRange) -> Self {
        Self::Range(error)
    }
}
