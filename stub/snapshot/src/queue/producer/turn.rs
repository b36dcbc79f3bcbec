//! An item's turn in the window: the search for its slot, and how it becomes known.

use std::sync::atomic::Ordering::{Relaxed, Release};

use heliostat_ring::queue::{self, Words};

use super::Queue;
use crate::door::Host;
use crate::queue::memory::Page;
use crate::queue::{Delivery, Flow};
use crate::ConsumerHandle;

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
        let mark = self.table.mark(slot).load(Relaxed);
        self.take_apart(
            |it| queue::retire(&it.table, slot, it.seats.pages()),
            |it| it.table.mark(slot).store(mark, Release),
        )
    }

    pub(in crate::queue) fn commit(&mut self, slot: usize, len: usize) -> u64 {
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
