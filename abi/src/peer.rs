//! What is the same for every service whose requests go from node to node.
//!
//! ```text
//! request of a service  --> the other node's control plane --> PeerReply
//! Granted there, to a session here: an ObjectId whose index has a bit that no grant of this node has
//! ```

mod reply;

use crate::name::ObjectId;

pub use reply::{PeerReply, CONTROL_REPLY_BYTES};

/// What a request to a control plane begins with, where a service sends messages to loops as well.
pub(crate) const CONTROL_KIND: u16 = 256;
/// Which of a session's objects are on other nodes: those whose index has this bit.
const ELSEWHERE: u32 = 1 << 31;

/// How many objects of one kind a session may have here and elsewhere, so that the bit is free.
pub(crate) const PLACES_MAX: usize = ELSEWHERE as usize;

/// The name that a session has for what has this place among its objects on other nodes.
pub const fn elsewhere(place: ObjectId) -> ObjectId {
    ObjectId { index: place.index | ELSEWHERE, generation: place.generation }
}

/// The place of an object among those on other nodes; `None` for one of this node.
pub const fn place_elsewhere(object: ObjectId) -> Option<ObjectId> {
    if object.index & ELSEWHERE == 0 {
        return None;
    }
    Some(ObjectId { index: object.index & !ELSEWHERE, generation: object.generation })
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
