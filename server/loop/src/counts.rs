//! What a server loop counts, as words that the control plane reads when it is asked.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heliostat_abi::file::delegated::{OpKind, Way};

/// Counters of one server loop; each is written by the loop alone.
pub struct Counts {
    /// Operations that ended, by kind.
    pub operations: [AtomicU64; OpKind::ALL.len()],
    /// Operations that ended with an error.
    pub failed: AtomicU64,
    /// Transfers that ended, by way.
    pub transfers: [AtomicU64; Way::SERVED.len()],
    /// Bytes of them, by way.
    pub bytes: [AtomicU64; Way::SERVED.len()],
    /// Records that were no operations.
    pub malformed: AtomicU64,
    /// Times the loop went to sleep.
    pub sleeps: AtomicU64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            operations: std::array::from_fn(|_| AtomicU64::new(0)),
            failed: AtomicU64::new(0),
            transfers: Default::default(),
            bytes: Default::default(),
            malformed: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
        }
    }
}

impl Counts {
    /// Adds to a counter, which nobody else writes.
    #[inline]
    pub fn add(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// How many operations of a kind have ended.
    pub fn operations_of(&self, kind: OpKind) -> u64 {
        self.operations.get(kind.place()).map_or(0, |counter| counter.load(Relaxed))
    }

    /// An operation has ended.
    #[inline]
    pub fn ended(&self, kind: OpKind, way: Way, result: i64) {
        if let Some(counter) = self.operations.get(kind.place()) {
            Self::add(counter, 1);
        }
        if result < 0 {
            return Self::add(&self.failed, 1);
        }
        let way = way as usize;
        if let (Some(count), Some(bytes)) = (self.transfers.get(way), self.bytes.get(way)) {
            Self::add(count, 1);
            Self::add(bytes, if way > 0 { result as u64 } else { 0 });
        }
    }
}
