//! Delegated operations: what waits, whose turn it is, which way it takes, what is kept in memory.
//!
//! Pure like the rest of this crate: no descriptor, no byte of a file, no clock. The server loop in
//! the daemon brings operations, completions and the time, and does what it is told.
//!
//! ```text
//! ring -> Operations (limits, order, deadlines) -> Fair (whose turn) -> Meter (how much)
//!      -> choose a Way -> Cache and Ahead, or the device -> completion
//! ```

mod again;
mod ahead;
mod cache;
mod fair;
mod meter;
mod operations;
mod way;

pub use again::Again;
pub use ahead::{Ahead, AHEAD_BLOCKS_MAX};
pub use cache::{BlockKey, Cache, Found, BLOCK_BYTES};
pub use fair::{Fair, COST_MIN, QUANTUM};
pub use meter::Meter;
pub use operations::{Cancelled, Entry, Operations};
pub use way::{choose, Choice, Question, DIRECT_FROM};

#[cfg(test)]
mod properties;
