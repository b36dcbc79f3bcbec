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
use crate::name::ObjectId;

pub use answer::{PeerAnswer, ANSWER_BYTES};
pub use control::{PeerControl, PeerReply, CONTROL_BYTES, CONTROL_REPLY_BYTES};
pub use message::{FarCall, FarReply, PeerMessage, MESSAGE_BYTES};

/// Which of a session's functions are on other nodes: those whose index has this bit.
const ELSEWHERE: u32 = 1 << 31;
const _: () = assert!(FUNCTIONS_MAX < ELSEWHERE as usize);

/// The function with this place among a session's functions on other nodes.
pub const fn elsewhere(place: ObjectId) -> ObjectId {
    ObjectId { index: place.index | ELSEWHERE, generation: place.generation }
}

/// The place of a function among those on other nodes; `None` for one of this node.
pub const fn place_elsewhere(function: ObjectId) -> Option<ObjectId> {
    if function.index & ELSEWHERE == 0 {
        return None;
    }
    Some(ObjectId { index: function.index & !ELSEWHERE, generation: function.generation })
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
