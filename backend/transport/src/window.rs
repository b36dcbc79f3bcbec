//! Flow control of one class of messages in one direction: bytes on the way, and bytes released.
//!
//! ```text
//! sender    Outgoing: sent - released (as the receiver said last) <= window
//! receiver  Incoming: received - released <= window, or the sender is at fault;
//!           told: what the sender knows of it
//! ```
//!
//! Totals since the link began, never differences: one that is said twice does no harm.

use crate::limits::MESSAGE_COST_BYTES;

/// What the sender knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    sent: u64,
    released: u64,
    window: u64,
}

/// What the receiver knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incoming {
    received: u64,
    released: u64,
    told: u64,
    window: u64,
}

/// The other side does not keep to the rules of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowFault {
    /// It sent more than there was room for.
    Overrun {
        /// Bytes on the way with this message.
        found: u64,
        /// The window.
        limit: u64,
    },
    /// It released less than before, or more than was sent.
    Released {
        /// The total that it says.
        found: u64,
        /// What was sent.
        sent: u64,
    },
}

/// What a message counts for.
pub fn cost(header_bytes: usize, payload_bytes: usize) -> u64 {
    MESSAGE_COST_BYTES + (header_bytes + payload_bytes) as u64
}

impl Outgoing {
    /// A window of `window` bytes with nothing in it.
    pub fn new(window: u64) -> Outgoing {
        Outgoing { sent: 0, released: 0, window }
    }

    /// Whether a message of this cost may be sent now.
    pub fn has_room(&self, cost: u64) -> bool {
        self.in_flight().saturating_add(cost) <= self.window
    }

    /// Whether such a message is short enough for this window: half of it, since the receiver may
    /// keep to itself that it released the other half ([`Incoming::must_tell`]).
    pub fn can_ever(&self, cost: u64) -> bool {
        cost.saturating_mul(2) <= self.window
    }

    /// Bytes sent and not released.
    pub fn in_flight(&self) -> u64 {
        self.sent - self.released
    }

    /// Counts a message that is sent.
    pub fn send(&mut self, cost: u64) {
        self.sent += cost;
    }

    /// Takes what the receiver says of itself; whether there is more room than before.
    pub fn learn(&mut self, released: u64) -> Result<bool, WindowFault> {
        if released < self.released || released > self.sent {
            return Err(WindowFault::Released { found: released, sent: self.sent });
        }
        let is_more = released > self.released;
        self.released = released;
        Ok(is_more)
    }
}

impl Incoming {
    /// A window of `window` bytes with nothing in it.
    pub fn new(window: u64) -> Incoming {
        Incoming { received: 0, released: 0, told: 0, window }
    }

    /// Counts a message that came.
    pub fn receive(&mut self, cost: u64) -> Result<(), WindowFault> {
        let found = self.received - self.released + cost;
        if found > self.window {
            return Err(WindowFault::Overrun { found, limit: self.window });
        }
        self.received += cost;
        Ok(())
    }

    /// The program above is done with a message.
    pub fn release(&mut self, cost: u64) {
        debug_assert!(self.received - self.released >= cost, "released twice");
        self.released += cost;
    }

    /// Whether the sender may be waiting for what it was not told: half the window, since the
    /// largest message fits into the other half.
    pub fn must_tell(&self) -> bool {
        (self.released - self.told).saturating_mul(2) >= self.window
    }

    /// The total to tell the sender, which from now on it knows.
    pub fn tell(&mut self) -> u64 {
        self.told = self.released;
        self.released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_window_has_room_again_after_a_release() {
        let mut outgoing = Outgoing::new(100);
        outgoing.send(60);
        assert!(!outgoing.has_room(41));
        assert!(outgoing.has_room(40));
        assert_eq!(outgoing.learn(60), Ok(true));
        assert_eq!(outgoing.learn(60), Ok(false));
        assert!(outgoing.has_room(100));
        assert!(outgoing.can_ever(50) && !outgoing.can_ever(51));
    }

    #[test]
    fn a_receiver_that_releases_what_was_not_sent_or_takes_back_is_at_fault() {
        let mut outgoing = Outgoing::new(100);
        outgoing.send(60);
        assert_eq!(outgoing.learn(61), Err(WindowFault::Released { found: 61, sent: 60 }));
        assert_eq!(outgoing.learn(30), Ok(true));
        assert_eq!(outgoing.learn(29), Err(WindowFault::Released { found: 29, sent: 60 }));
    }

    #[test]
    fn a_sender_that_overruns_the_window_is_at_fault() {
        let mut incoming = Incoming::new(100);
        assert_eq!(incoming.receive(100), Ok(()));
        assert_eq!(incoming.receive(1), Err(WindowFault::Overrun { found: 101, limit: 100 }));
        incoming.release(1);
        assert_eq!(incoming.receive(1), Ok(()));
    }

    /// However messages and releases follow each other, a sender that has no room for the largest
    /// message is told before it would wait for ever.
    #[test]
    fn a_sender_without_room_is_told_when_all_is_released() {
        for costs in [[10, 10, 50], [1, 49, 50], [50, 50, 0], [30, 30, 30]] {
            let (mut outgoing, mut incoming) = (Outgoing::new(100), Incoming::new(100));
            for cost in costs {
                outgoing.send(cost);
                incoming.receive(cost).expect("room");
            }
            costs.into_iter().for_each(|cost| incoming.release(cost));
            let told = if incoming.must_tell() { incoming.tell() } else { 0 };
            outgoing.learn(told).expect("what was sent");
            assert!(outgoing.has_room(50), "{costs:?}");
        }
    }
}
