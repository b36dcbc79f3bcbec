//! The snapshot service's control side: which region has which name, and who is attached to it.
//!
//! A pure state machine: (state, input) -> answer and effects. It holds no descriptor, reads no
//! memory and decides no right; the daemon brings the kernel's facts in and carries the effects
//! out, before it sends the answer.
//!
//! ```text
//!            publish                attach                       changes (asked by the producer)
//!  nothing ----------> Region  ---------------> consumer, untold -------------------> told
//!     ^                  | unpublish,              | leaves                             | leaves
//!     |                  | session ends            v                                    v
//!     +------------------+                      nothing                  told to have left --> nothing
//! ```
//!
//! The producer is told of every consumer exactly once, and that it left exactly once; one that
//! came and went between two questions is never mentioned. Whoever left is told before whoever
//! joined, so that a producer with room for `CONSUMERS_MAX` never needs more.
#![forbid(unsafe_code)]

mod ending;
mod refusal;
mod snapshot;
mod view;

pub use refusal::{Reason, Refusal};
pub use snapshot::{Batch, Effect, Key, Limits, Named, Snapshot, TOMBSTONES_MAX};
pub use view::{ConsumerView, Holding, RegionView};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod snapshot_tests;
