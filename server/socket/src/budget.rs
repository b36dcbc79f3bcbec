//! How many sockets there may be: counted by every loop at once, for a user and for the node.

use std::sync::Arc;

use heliostat_base::sync::{AtomicU64, Ordering::Relaxed};

/// So many sockets, of which some are in use.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    /// Of them, connections that are nobody's yet.
    unowned: AtomicU64,
    most: AtomicU64,
    /// The larger one that it is a part of.
    whole: Option<Arc<Budget>>,
}

/// One socket's place. Dropped, it is given back.
#[derive(Debug)]
pub struct Slot {
    of: Arc<Budget>,
    is_unowned: bool,
}

impl Budget {
    /// For so many, within a larger one.
    pub fn new(most: u64, whole: Option<Arc<Budget>>) -> Arc<Budget> {
        let (used, unowned) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Budget { used, unowned, most: AtomicU64::new(most), whole })
    }

    /// Says anew how many there may be. Those that are there stay.
    pub fn set_most(&self, most: u64) {
        self.most.store(most, Relaxed);
    }

    /// How many there are.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// How many there may be.
    pub fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }

    /// Takes a place, where there is one here and in the larger one.
    pub fn take(self: &Arc<Budget>) -> Option<Slot> {
        self.take_one().then(|| Slot { of: self.clone(), is_unowned: false })
    }

    /// Takes a place for a connection that is nobody's yet. They have half of the places at most, so
    /// that silent clients leave some for those that speak.
    pub fn take_unowned(self: &Arc<Budget>) -> Option<Slot> {
        let most = self.most() / 2;
        let more = |unowned| (unowned < most).then_some(unowned + 1);
        self.unowned.fetch_update(Relaxed, Relaxed, more).ok()?;
        let slot = self.take();
        if slot.is_none() {
            self.unowned.fetch_sub(1, Relaxed);
        }
        slot.map(|mut slot| {
            slot.is_unowned = true;
            slot
        })
    }

    fn take_one(&self) -> bool {
        let most = self.most();
        let more = |used| (used < most).then_some(used + 1);
        if self.used.fetch_update(Relaxed, Relaxed, more).is_err() {
            return false;
        }
        let is_room = self.whole.as_ref().is_none_or(|whole| whole.take_one());
        if !is_room {
            self.used.fetch_sub(1, Relaxed);
        }
        is_room
    }

    fn give_back(&self) {
        self.used.fetch_sub(1, Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.is_unowned {
            self.of.unowned.fetch_sub(1, Relaxed);
        }
        self.of.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_takes_no_more_than_its_own_and_all_parts_no_more_than_the_whole() {
        let whole = Budget::new(3, None);
        let (one, other) =
            (Budget::new(2, Some(whole.clone())), Budget::new(2, Some(whole.clone())));
        let first = (one.take(), one.take());
        assert!(first.0.is_some() && first.1.is_some() && one.take().is_none());
        let second = other.take();
        assert!(second.is_some() && other.take().is_none());
        assert_eq!((one.used(), other.used(), whole.used()), (2, 1, 3));
        drop(first);
        assert_eq!((one.used(), whole.used()), (0, 1));
        assert!(other.take().is_some());
    }
}
