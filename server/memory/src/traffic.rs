//! How much one loop has on the way to other nodes, and what waits until it is less.

use std::collections::VecDeque;

use heliostat_abi::name::ObjectId;

/// Bytes of one session: as much as it gets there and back in a few milliseconds of any network.
const SESSION_BYTES_MAX: u64 = 8 << 20;
/// Bytes of all sessions of a loop: the node's thread takes 32 MiB of one caller.
const LOOP_BYTES_MAX: u64 = 24 << 20;
/// Messages of a loop: the node's thread takes 4,096.
const MESSAGES_MAX: usize = 4000;
/// What a message counts beside its bytes.
const MESSAGE_COST: u64 = 2048;

/// An operation that has a part to send: session, which delegation of its connection, operation.
pub type Waiting = (ObjectId, u64, ObjectId);

/// What of a loop is on the way.
#[derive(Default)]
pub struct Traffic {
    bytes: u64,
    messages: usize,
    waiting: VecDeque<Waiting>,
}

impl Traffic {
    /// Whether a part of so many bytes may be sent, of a session that has `session_bytes` on the way.
    pub fn has_room(&self, session_bytes: u64, bytes: u64) -> bool {
        let cost = bytes + MESSAGE_COST;
        // One part alone is never too much.
        let fits = |on_way: u64, most: u64| on_way == 0 || on_way + cost <= most;
        self.messages < MESSAGES_MAX
            && fits(session_bytes, SESSION_BYTES_MAX)
            && fits(self.bytes, LOOP_BYTES_MAX)
    }

    /// A part of so many bytes is on the way.
    pub fn left(&mut self, session_bytes: &mut u64, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes + MESSAGE_COST;
        *session_bytes += bytes + MESSAGE_COST;
    }

    /// It has its answer. Its session, if that is still there, has as much less on the way.
    pub fn came(&mut self, bytes: u64) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = Self::less(self.bytes, bytes);
    }

    /// What is on the way after such an answer.
    pub fn less(on_way: u64, bytes: u64) -> u64 {
        on_way.saturating_sub(bytes + MESSAGE_COST)
    }

    /// An operation waits for room.
    pub fn wait(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// The operation that has waited longest.
    pub fn next(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_always_fits_and_no_more_than_may_be() {
        let (mut traffic, mut one, mut other) = (Traffic::default(), 0, 0);
        let part = 256 << 10;
        assert!(traffic.has_room(one, 1 << 40));
        while traffic.has_room(one, part) {
            traffic.left(&mut one, part);
        }
        assert!(one <= SESSION_BYTES_MAX && one + part + MESSAGE_COST > SESSION_BYTES_MAX);
        assert!(traffic.has_room(other, part), "another session has its own");
        for _ in 0..traffic.messages {
            traffic.came(part);
            one = Traffic::less(one, part);
        }
        assert_eq!((one, traffic.bytes, traffic.messages), (0, 0, 0));
        while traffic.has_room(0, 0) {
            traffic.left(&mut other, 0);
        }
        assert_eq!(traffic.messages, MESSAGES_MAX);
    }
}
