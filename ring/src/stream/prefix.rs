//! Bytes that travelled on the shadow before the ring was begun: the lane's prefix.
//!
//! ```text
//! shadow   [prefix bytes of payload][bells ...]
//! ring                              [all further payload]
//! ```
//! The writer counts what it sends, and rings no bell before the number is final (`S1`, the slot's
//! step to Started or Proven). The reader counts what it takes, and takes no more than lay there
//! before it saw that the number was not final yet: so it never takes a bell for payload. The secret
//! by which a client proves its offer is the first of its bells.

use heliostat_abi::stream::channel::direction as at;

use super::{Lane, Place};
use crate::sync::Ordering::Relaxed;

impl<P: Place> Lane<P> {
    /// The writer sent `count` more bytes on the shadow; only before the step that makes it final.
    pub fn extend_prefix(&self, count: u64) {
        self.place.u64(at::PREFIX).fetch_add(count, Relaxed); // S1
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

    /// Notes that `count` bytes of payload were taken off the shadow.
    pub fn note_taken(&self, count: u64) {
        self.place.u64(at::TAKEN).fetch_add(count, Relaxed);
    }

    /// Counts `count` bell bytes at once, before they are sent.
    pub fn count_bells(&self, count: u32) {
        self.place.u32(at::BELLS).fetch_add(count, Relaxed); // S1
    }

    /// Takes those back that were not sent.
    pub fn uncount_bells(&self, count: u32) {
        self.place.u32(at::BELLS).fetch_sub(count, Relaxed);
    }
}
