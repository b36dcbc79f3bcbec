//! The net service's control side: who listens where, and which channels lead there.
//!
//! A pure state machine: (state, input) -> answer and effects. It makes no memory, reads no
//! socket and decides no right; the daemon brings the kernel's facts in and carries the effects
//! out. That is what makes every interleaving of sessions testable without a process.
//!
//! ```text
//!              register (proof)                 open (client session, port)
//!  nothing ---------------------> Port --------------------------------> Channel (Active)
//!     ^                            | last session unregisters               |
//!     |                            v                                        | client ends,
//!     +------------------- port and its channels freed <--------------------+ port freed
//! ```
#![forbid(unsafe_code)]

mod ending;
mod endpoint;
mod net;
mod refusal;
mod view;

pub use endpoint::{Endpoint, Namespace, Proof};
pub use net::{Batch, Effect, Limits, Net, Opening};
pub use refusal::{Reason, Refusal};
pub use view::{ChannelView, Holding, PortView};

#[cfg(test)]
mod net_tests;
#[cfg(test)]
mod properties;
