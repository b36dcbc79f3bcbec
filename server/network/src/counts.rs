//! What a loop counts, as words that the control plane reads when it is asked; and what all count
//! together.

use heliostat_base::sync::{AtomicU64, Ordering::Relaxed};

/// Counters of one loop; each is written by the loop alone.
#[derive(Default)]
pub struct Counts {
    /// Connections that it carries now.
    pub connections: AtomicU64,
    /// Connections that were handed to it.
    pub handed: AtomicU64,
    /// Connections that it did not take: malformed, or beyond a limit.
    pub refused: AtomicU64,
    /// Connections whose programs took them back.
    pub given_back: AtomicU64,
    /// Bytes received from remote peers.
    pub received: AtomicU64,
    /// Bytes sent to them.
    pub sent: AtomicU64,
    /// Bells rung for programs that slept.
    pub bells: AtomicU64,
    /// Times that it slept itself.
    pub sleeps: AtomicU64,
    /// Connections whose programs broke the protocol.
    pub corrupt: AtomicU64,
    /// Orders that it has taken.
    pub orders: AtomicU64,
}

impl Counts {
    /// Adds to a counter, which nobody else writes.
    pub fn add(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
    }
}
