//! Bytes that travelled on the shadow before the ring was begun: the lane's prefix.
//!
//! ```text
//! shadow   [prefix bytes of payload][bells ...]
//! ring                              [all further payload]
//! ```
//! The writer counts what it sends, and rings no bell before the number is final (`S1`, the slot's
//! step to Started). The reader counts what it takes. A piece that it took while the number was not
//! final yet may end in bells: what lies beyond the prefix is bells, and is counted as such.

use heliostat_abi::channel::direction as at;

use super::{Lane, Place};
use crate::sync::Ordering::Relaxed;

impl<P: Place> Lane<P> {
    /// The writer sent `count` more bytes on the shadow; only before the slot is Started.
    pub fn extend_prefix(&self, count: u64) {
        let word = self.place.u64(at::PREFIX);
        word.store(word.load(Relaxed).wrapping_add(count), Relaxed); // S1
    }

    /// Bytes the writer says that it sent on the shadow.
    pub fn prefix(&self) -> u64 {
        self.place.u64(at::PREFIX).load(Relaxed)
    }

    /// Bytes of payload the reader has taken off the shadow.
    pub fn taken(&self) -> u64 {
        self.place.u64(at::TAKEN).load(Relaxed)
    }

    /// Bytes of the prefix still on the shadow, once it is final; `None` where more was taken than
    /// was sent: the writer is not honest.
    pub fn prefix_left(&self) -> Option<u64> {
        self.prefix().checked_sub(self.taken())
    }

    /// Notes `count` bytes taken off the shadow and says how many of them are payload; the rest, at
    /// the end, are bells. `is_final` as seen after the bytes were there. `None` where that cannot
    /// be: more bells than were rung.
    pub fn note_taken(&self, count: u64, is_final: bool) -> Option<u64> {
        let mut payload = count;
        if is_final {
            payload = count.min(self.prefix_left()?);
            let bells = u32::try_from(count - payload).ok()?;
            if bells > self.bells_pending() {
                return None;
            }
            self.bells_drained(bells);
        }
        let word = self.place.u64(at::TAKEN);
        word.store(word.load(Relaxed).wrapping_add(payload), Relaxed);
        Some(payload)
    }
}
