//! The file service's control side: which file is under a lease, and which sessions read it.
//!
//! A pure state machine: (state, now, input) -> answer and effects. It holds no descriptor, looks
//! at no file and decides no right; the daemon brings the kernel's facts in and carries the effects
//! out, in order, before it sends the answer.
//!
//! ```text
//!            ask              taken                broken
//!  nothing -------> Taking ----------> Active -----------------> nothing, and a pause
//!     ^               | not taken        | the last holder ends
//!     +---------------+------------------+
//! ```
//!
//! All sessions that read a file share one lease. A lease that was broken is over at once: its word
//! says Revoked until the place is used again, so that nobody has to be waited for.
#![forbid(unsafe_code)]

mod file;
mod key;
mod pause;
mod refusal;
mod view;

pub use file::{Effect, File, Limits};
pub use key::FileKey;
pub use pause::{FORGIVEN_AFTER, PAUSES_MAX, PAUSE_LONGEST_NS, PAUSE_SHORTEST_NS};
pub use refusal::{Reason, Refusal};
pub use view::LeaseView;

#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod properties;
