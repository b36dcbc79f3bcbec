//! What all ways to append have in common.

use std::error::Error;

pub type Failure = Box<dyn Error + Send + Sync>;

/// Space that is written round and round: what a program would keep until it is trimmed.
pub const SPACE_BYTES: u64 = 64 << 20;

/// One way to append durably.
pub trait Way: Sync {
    /// Appends, and returns when that is durable.
    fn append(&self, payload: &[u8]) -> Result<(), Failure>;
}
