//! Why a store on a device did not do what it was asked.

use std::fmt;

use heliostat_backend_block::{BeginError, BlockError};
use heliostat_storefile::StoreError;

/// A request that was refused, or failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreFailed {
    /// The store refuses; nothing was done.
    Store(StoreError),
    /// The device failed; what it holds is open, and the store has to be opened again.
    Device(BlockError),
    /// The device did not begin an operation; the same holds.
    NotBegun(BeginError),
    /// A step has failed before, and the store was not opened again since.
    Failed,
}

impl fmt::Display for StoreFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreFailed::Store(error) => error.fmt(f),
            StoreFailed::Device(error) => error.fmt(f),
            StoreFailed::NotBegun(error) => error.fmt(f),
            StoreFailed::Failed => {
                f.write_str("the device failed during a change; the store has to be opened again")
            }
        }
    }
}

impl std::error::Error for StoreFailed {}

impl From<StoreError> for StoreFailed {
    fn from(error: StoreError) -> Self {
        StoreFailed::Store(error)
    }
}

impl From<BlockError> for StoreFailed {
    fn from(error: BlockError) -> Self {
        StoreFailed::Device(error)
    }
}

impl From<BeginError> for StoreFailed {
    fn from(error: BeginError) -> Self {
        StoreFailed::NotBegun(error)
    }
}
