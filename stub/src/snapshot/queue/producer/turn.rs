//! An item's turn in the window: the search for its slot, and how it becomes known.

use std::sync::atomic::Ordering::{Relaxed, Release};

use heliostat_ring::queue::{self, Words};

use super::Queue;
use crate::snapshot::door::Door;
use crate::snapshot::queue::memory::Page;
use crate::snapshot::queue::{Delivery, Flow};
use crate::snapshot::ConsumerHandle;

/// How often a slot is tried to be had while consumers keep joining; then it is passed over.
const ATTEMPTS: usize = 4;

impl Queue {
    /// The next slot that may be written, retired; the numbers of those passed over are left out.
    pub(super) fn find_slot(&mut self) -> Option<usize> {
        let slots = u64::from(self.settings.slots);
        self.seats.follow(self.head, self.head.saturating_sub(slots));
        let is_dealt = self.settings.delivery == Delivery::One;
        if is_dealt {
            self.seats.choose()?;
        }
        // What a slow reader of all still wants ends the search: no number behind it fits either.
        let waits = (self.settings.flow, is_dealt) == (Flow::Full, false);
        let lowest = if waits { self.seats.lowest() } else { None };
        let end = lowest.map_or(u64::MAX, |lowest| lowest + slots).min(self.next + slots);
        for number in self.next..end {
            let slot = (number % slots) as usize;
            if self.is_done(slot) && self.retire(slot) {
                self.metrics.passed_over += number - self.next;
                self.next = number;
                return Some(slot);
            }
        }
        None
    }

    /// False when the item in `slot` was dealt to somebody who counts and has not read it.
    fn is_done(&self, slot: usize) -> bool {
        self.settings.flow == Flow::Overwrite
            || self.dealt[slot].is_none_or(|(to, number)| self.seats.is_done(to, number))
    }

    fn retire(&mut self, slot: usize) -> bool {
        for _ in 0..ATTEMPTS {
            let mark = self.table.mark(slot).load(Relaxed);
            if !queue::retire(&self.table, slot, self.seats.pages()) {
                return false;
            }
            // After the fence in `retire`: who found the mark before it was cleared joined before
            // that, and the door says so.
            if !self.door.as_ref().is_some_and(Door::has_news) {
                return true;
            }
            self.table.mark(slot).store(mark, Release);
            if !self.attend_door() {
                return false;
            }
        }
        false
    }

    /// Admits who joined by name, dismisses who left. False when nobody will tell any more.
    pub(super) fn attend_door(&mut self) -> bool {
        let Some(mut door) = self.door.take() else { return true };
        if door.has_news() {
            self.is_lost = self.is_lost || !door.ask(self);
        }
        let is_known = !door.has_news();
        self.door = Some(door);
        is_known
    }

    pub(in crate::snapshot::queue) fn commit(&mut self, slot: usize, len: usize) -> u64 {
        let number = self.next;
        let is_dealt = self.settings.delivery == Delivery::One;
        let to = if is_dealt { self.seats.choose() } else { None };
        to.into_iter().for_each(|handle| self.seats.deal(handle, number));
        self.dealt[slot] = to.map(|handle| (handle, number));
        let receiver = to.map_or(0, ConsumerHandle::number);
        self.table.describe(slot, len, self.metrics.committed, receiver);
        queue::commit(&self.table, slot, number);
        (self.next, self.head) = (number + 1, number + 1);
        self.metrics.committed += 1;
        // Who joined while this item was written may sleep already.
        self.attend_door();
        match to {
            Some(handle) => self.seats.page(handle).into_iter().for_each(Page::ring_consumer),
            None => self.seats.pages().for_each(Page::ring_consumer),
        }
        number
    }
}
