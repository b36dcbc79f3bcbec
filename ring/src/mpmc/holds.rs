//! Which taken elements are released, in private memory.
//!
//! Elements are taken in order but released in any order, while the ring is reclaimed in order.
//! Solros marks that in the elements themselves; here it stays with the consumer, so that a
//! producer cannot forge a release and no element's line goes back to the producer modified.

use crate::position::Position;
use crate::sync::{full_fence, AtomicU64, Ordering};

/// How many elements may be taken and not yet reclaimed. 8 KiB of marks.
#[cfg(not(loom))]
pub const HOLDS_MAX: usize = 1024;
/// How many elements may be taken and not yet reclaimed.
#[cfg(loom)]
pub const HOLDS_MAX: usize = 4;
/// Marks on one cache line; under loom fewer, so that there is more than one line there too.
const MARKS_PER_LINE: usize = if cfg!(loom) { 2 } else { 8 };

/// Number of an element in the order of taking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold(u64);

/// Marks, one per taken element: 0 while held, else the position behind the element, plus one
/// (positions are multiples of 8, so no released mark is 0).
pub(crate) struct Holds {
    marks: Box<[AtomicU64]>,
    /// Number, plus one, of the hold at which the last reclaiming stopped although much behind it
    /// was released. Whoever releases that hold reclaims; 0 at first. Numbers never come back.
    awaited: AtomicU64,
}

impl Holds {
    pub(crate) fn new() -> Holds {
        let marks = (0..HOLDS_MAX).map(|_| AtomicU64::new(0)).collect();
        Holds { marks, awaited: AtomicU64::new(0) }
    }

    /// Neighbouring holds, which different cores release, lie on different cache lines.
    #[inline(always)]
    fn mark(&self, hold: u64) -> &AtomicU64 {
        const LINES: usize = HOLDS_MAX.div_ceil(MARKS_PER_LINE);
        let slot = hold as usize % HOLDS_MAX;
        let place = (slot % LINES) * (HOLDS_MAX / LINES) + slot / LINES;
        &self.marks[place]
    }

    /// Says that the element of `hold`, which ends at `end`, is released. True if a reclaiming
    /// waited for this very hold, and has to be done again.
    #[inline]
    pub(crate) fn release(&self, hold: Hold, end: Position) -> bool {
        // [hold] Our reads of the element come before.
        self.mark(hold.0).store(end.value() | 1, Ordering::Release);
        full_fence(); // [awaited]
        self.awaited.load(Ordering::Relaxed) == hold.0.wrapping_add(1)
    }
}

/// The window of holds that are in use; belongs to the combiner's state.
#[derive(Default)]
pub(crate) struct Held {
    oldest: u64,
    next: u64,
}

impl Held {
    pub(crate) fn is_full(&self) -> bool {
        self.next.wrapping_sub(self.oldest) >= HOLDS_MAX as u64
    }

    /// Begins a hold.
    #[inline]
    pub(crate) fn begin(&mut self) -> Hold {
        let hold = Hold(self.next);
        self.next = self.next.wrapping_add(1);
        hold
    }

    /// Ends the oldest holds as far as they are released; the position behind the last of them.
    /// With `insist`, the hold that stands in the way is told to reclaim when it is released.
    pub(crate) fn reclaim(&mut self, holds: &Holds, insist: bool) -> Option<Position> {
        let mut end = None;
        loop {
            end = self.end_released(holds).or(end);
            if !insist || self.is_empty() {
                return end;
            }
            holds.awaited.store(self.oldest.wrapping_add(1), Ordering::Relaxed);
            // Either the releaser sees that it is awaited, or we see its mark now.
            full_fence(); // [awaited]
            if holds.mark(self.oldest).load(Ordering::Relaxed) == 0 {
                return end;
            }
        }
    }

    fn end_released(&mut self, holds: &Holds) -> Option<Position> {
        let mut end = None;
        while self.oldest != self.next {
            let mark = holds.mark(self.oldest);
            let value = mark.load(Ordering::Acquire); // [hold]
            if value == 0 {
                break;
            }
            mark.store(0, Ordering::Relaxed);
            end = Some(Position::new(value & !1));
            self.oldest = self.oldest.wrapping_add(1);
        }
        end
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.oldest == self.next
    }
}
