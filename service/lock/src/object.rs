//! One lock, semaphore or barrier: how much of it is taken, and its line.

use std::collections::BTreeMap;

use heliostat_abi::lock::{Claim, Kind, Shape, Why};
use heliostat_abi::name::ObjectId;

use crate::key::Key;

/// What a reader-writer lock has of itself: a writer takes all, a reader one. More than tickets.
const READERS: u64 = 1 << 32;

/// A lock, semaphore or barrier.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub key: Key,
    pub shape: Shape,
    /// Handles on it.
    pub opened: usize,
    /// How much of it is held.
    pub taken: u64,
    /// By how many tickets.
    pub held: usize,
    /// Tickets that wait, by their place.
    pub line: BTreeMap<u64, ObjectId>,
    /// The last death of a holder that nobody has put right yet; zero for none.
    pub death: u64,
    /// Token of the last acquisition, or generation that a barrier's participants arrive for.
    pub last: u64,
    /// A barrier that is broken, and why.
    pub broken: Option<Why>,
    /// When it was made.
    pub since_ns: u64,
}

impl Object {
    /// A new one, that nobody has opened.
    pub fn new(key: Key, shape: Shape, now_ns: u64) -> Object {
        let last = u64::from(shape.kind == Kind::Barrier);
        let (line, broken) = (BTreeMap::new(), None);
        let (opened, taken, held, death) = (0, 0, 0, 0);
        Object { key, shape, opened, taken, held, line, death, last, broken, since_ns: now_ns }
    }

    /// How much of it there is.
    pub fn capacity(&self) -> u64 {
        match self.shape.kind {
            Kind::Lock => 1,
            Kind::ReaderWriter => READERS,
            Kind::Semaphore => u64::from(self.shape.count),
            Kind::Barrier => 0,
        }
    }

    /// How much a claim takes of it; `None` for a claim that it never meets.
    pub fn amount(&self, claim: Claim) -> Option<u64> {
        match (self.shape.kind, claim) {
            (Kind::Lock | Kind::ReaderWriter, Claim::Exclusive) => Some(self.capacity()),
            (Kind::ReaderWriter, Claim::Shared) => Some(1),
            (Kind::Semaphore, Claim::Permits(count)) => {
                Some(u64::from(count)).filter(|count| (1..=self.capacity()).contains(count))
            }
            _ => None,
        }
    }

    /// Whether so much more of it can be held.
    pub fn has_room(&self, amount: u64) -> bool {
        self.taken.saturating_add(amount) <= self.capacity()
    }
}
