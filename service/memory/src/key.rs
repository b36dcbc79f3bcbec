//! Names of regions.

use heliostat_abi::memory::MemoryName;

/// What has a name: a user's region.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Key {
    /// The user.
    pub uid: u32,
    /// The name among those of this user.
    pub name: MemoryName,
}
