//! What a lock is found by.

use heliostat_abi::lock::LockName;

/// What a lock is found by.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Key {
    /// Whose name it is.
    pub uid: u32,
    /// The name.
    pub name: LockName,
}
