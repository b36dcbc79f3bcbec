//! What nodes ask each other of memory regions: requests to the node that holds them, and its answers.
//!
//! ```text
//! control    who, which request of this service  --> that node's control plane --> what it answers
//! operation  a handle there, what to do with it  --> that node's thread        --> refusal or result
//! ```
//!
//! Both are headers of messages between nodes (`docs/transport.md`); bytes that are read or written are
//! their payloads. A node is believed nothing but who of its users asks, if that: what may be done, and
//! where, is looked up at the node that holds the region, for each request.

mod answer;
mod control;
mod operation;

use super::limits::HANDLES_MAX;
use crate::name::ObjectId;
use crate::peer::PLACES_MAX;
use crate::wire::{Reader, Writer};

pub use crate::peer::{elsewhere, place_elsewhere, PeerReply, CONTROL_REPLY_BYTES};
pub use answer::{PeerAnswer, PeerRefusal, ANSWER_BYTES};
pub use control::{PeerControl, CONTROL_BYTES};
pub use operation::{PeerAction, PeerOperation, Range, OPERATION_BYTES};

/// Bytes that one message moves at most. A large transfer is many messages, so that several are on the
/// way at once and a short one waits for no more than a few of these.
pub const CHUNK_BYTES_MAX: u64 = 256 << 10;
/// Bytes that one message sets or copies at the node that holds them: its thread does nothing else
/// meanwhile.
pub const CHANGE_BYTES_MAX: u64 = 1 << 20;
/// Handles of one session on regions of other nodes.
pub const REMOTE_HANDLES_MAX: usize = 16_384;
const _: () = assert!(HANDLES_MAX + REMOTE_HANDLES_MAX < PLACES_MAX);

/// A handle at the node that holds the region, as another node names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct PeerHandle {
    /// What one user of one node has there.
    pub session: ObjectId,
    /// The handle among those.
    pub handle: ObjectId,
}

impl PeerHandle {
    fn encode(&self, w: &mut Writer<'_>) {
        self.session.encode(w);
        self.handle.encode(w);
    }

    fn decode(r: &mut Reader<'_>) -> Self {
        Self { session: ObjectId::decode(r), handle: ObjectId::decode(r) }
    }
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
