//! The memory service's control side: which regions there are, of what, and who has a handle on them.
//!
//! A pure state machine: (state, input) -> answer and effects. It holds no descriptor, touches no
//! byte of a region and decides no right by rules; the daemon brings the kernel's facts in and carries
//! the effects out, before it sends the answer.
//!
//! ```text
//!         allocate                 free, or its last manager ends        the last hold ends
//! nothing --------> Live region --------------------------------> Retired -----------------> nothing
//!                    |     ^                                      bytes stay, handles are lost
//!                    v map | unmap                                (word says gone)
//!                   handles
//! ```
//!
//! A *hold* is what keeps bytes from being given to another region: a direct handle until it is given
//! back, since its session maps the arena; a handle that a server loop has, until the loop says that
//! it has let go. So nobody who looked at a region's word in time ever meets another region's bytes.
#![forbid(unsafe_code)]

mod arenas;
mod ask;
mod asker;
mod change;
mod departing;
mod ending;
mod forwards;
mod handles;
mod holders;
mod key;
mod map;
mod memory;
mod moves;
mod moving;
mod questions;
mod refusal;
mod remote;
mod serving;
mod space;
mod view;

pub use arenas::Room;
pub use ask::Answered;
pub use asker::Asker;
pub use departing::Departing;
pub use forwards::Forward;
pub use key::Key;
pub use memory::{Effect, Limits, Memory, APPOINTED_MAX};
pub use moves::MoveEnd;
pub use moving::CopyPlan;
pub use questions::QUESTIONS_MAX;
pub use refusal::{Reason, Refusal};
pub use remote::{Remote, Remotes};
pub use view::{Holding, RegionView};

#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod properties;
