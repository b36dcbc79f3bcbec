//! What nodes ask each other of functions: requests to the control plane that has them, and calls.
//!
//! ```text
//! control    who, which request of this service    --> that node's control plane --> what it answers
//! Call       a function there, payload             --> its server loop --> received, or why not
//! Leave      nobody waits for a call any more      --> its server loop --> Done
//! Reply      a call of the node that is told       <-- its server loop     Heard, or NobodyWaits
//! ```
//! All are headers of messages between nodes (`docs/transport.md`); payloads of calls and replies are
//! their payloads. A node is believed nothing but who of its users calls, if that.

mod answer;
mod control;
mod message;

use super::limits::FUNCTIONS_MAX;
use crate::peer::PLACES_MAX;

pub use crate::peer::{elsewhere, place_elsewhere, PeerReply, CONTROL_REPLY_BYTES};
pub use answer::{PeerAnswer, ANSWER_BYTES};
pub use control::{PeerControl, CONTROL_BYTES};
pub use message::{FarCall, FarReply, PeerMessage, MESSAGE_BYTES};

const _: () = assert!(FUNCTIONS_MAX < PLACES_MAX);

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
