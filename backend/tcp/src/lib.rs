//! TCP sockets as the network service and its programs see them: how far the kernel has come with them.
//!
//! A loop that carries a connection may be killed between two instructions. What it had received and
//! sent by then nobody has written down but the kernel, which counts both ([`Positions`]). Whether having a loop carry pays at all is measured
//! here too ([`measure`]).
#![warn(missing_docs)]

mod measure;
mod mover;
mod options;
mod positions;

pub use measure::{measure, Facts, Measured, Verdict};
pub use mover::{Direction, Mover, Transfer};
pub use options::{copy_timeouts, descriptors_max, linger_seconds};
pub use positions::{Positions, Unknown};
