//! A wait-free queue over shared memory: one producer that writes in place, many that read in
//! place, and no word that two of them write.
//!
//! Item `n` lies in slot `n % slots`; the slot's *mark* says `n + 1` while the item is whole there.
//! The producer alone writes marks and HEAD. A consumer writes two words of its own page: CURSOR
//! (nothing below it is wanted) and HOLD (the mark of what it reads now). A slot that somebody
//! holds is left as it is, and the producer goes on with the next number: so a consumer that stops
//! or lies costs the others a slot, and nobody waits for anybody.
//!
//! Wait-free: [`take`] ends after at most `slots` looks, [`retire`] after two looks at each seat,
//! [`commit`] and [`release`] after two stores. There is no loop that another side can prolong.
//!
//! Orders (`models` shows them under loom):
//! - `Q1` item before MARK, MARK before HEAD: who finds a mark finds the item;
//! - `Q2` reading done before HOLD is cleared: the consumer publishes, the producer acquires before
//!   it writes again;
//! - `Q3` HOLD set, full fence, look at MARK; against MARK cleared, full fence, look at the holds.
//!   One of both sees the other (Dekker), so nothing is written that is read.
//!
//! Every word of the other side is foreign: marks are only compared, HEAD only bounds a count, and
//! a cursor that goes back or beyond HEAD stops counting for good ([`Standing`]).

use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{fence_after_locked, full_fence, AtomicU64};

/// The words of a queue's table: written by the producer, foreign to consumers.
pub trait Words {
    /// Number behind the newest item.
    fn head(&self) -> &AtomicU64;
    /// Number of the item in `slot` plus one; 0 while it is written.
    fn mark(&self, slot: usize) -> &AtomicU64;
    /// Slots there are, at least 1; a number of our own or a checked one.
    fn slots(&self) -> usize;
}

/// The words of one consumer's page: written by the consumer, foreign to the producer.
pub trait Seat {
    /// No item below this number is wanted.
    fn cursor(&self) -> &AtomicU64;
    /// Mark of the item being read, 0 for none.
    fn hold(&self) -> &AtomicU64;
}

/// What a producer believes of one consumer's progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The cursor as last believed.
    pub cursor: u64,
    /// Whether the producer keeps items for it.
    pub counts: bool,
}

impl Standing {
    /// Looks at a consumer's cursor. One that goes back or beyond `head` is a lie, and whoever
    /// lies does not count any more.
    pub fn follow(&mut self, seat: &impl Seat, head: u64) {
        let found = seat.cursor().load(Acquire);
        match (self.cursor..=head).contains(&found) {
            true => self.cursor = found,
            false => self.counts = false,
        }
    }
}

/// Producer: true when `slot` may be written; false when somebody reads the item in it.
///
/// `seats` are those of all consumers that know the table. One thread of the producer at a time.
pub fn retire<'a, S: Seat + 'a>(
    words: &impl Words,
    slot: usize,
    seats: impl IntoIterator<Item = &'a S> + Clone,
) -> bool {
    let word = words.mark(slot);
    let mark = word.load(Relaxed);
    if is_held(seats.clone(), mark) {
        return false;
    }
    word.store(0, Release); // Q3
    full_fence();
    let is_free = !is_held(seats, mark);
    if !is_free {
        word.store(mark, Release); // Q1
    }
    is_free
}

/// Producer: makes the item in a retired `slot` known as number `number`. A full fence: what is
/// looked at afterwards is looked at after the item could be seen.
pub fn commit(words: &impl Words, slot: usize, number: u64) {
    words.mark(slot).store(number + 1, Release); // Q1
    words.head().swap(number + 1, SeqCst); // Q1
    fence_after_locked();
}

/// Consumer: holds the oldest item at or behind `cursor` that is still there and `is_mine`; moves
/// the cursor to it, or to HEAD when there is none. Answers its slot; [`release`] lets go.
pub fn take(
    words: &impl Words,
    seat: &impl Seat,
    cursor: &mut u64,
    is_mine: impl Fn(usize) -> bool,
) -> Option<usize> {
    let head = words.head().load(Acquire); // Q1
                                           // At most `slots` turns, whatever happens meanwhile: the head was looked at once.
    while let Some(slot) = seek_below(words, head, cursor, &is_mine) {
        let mark = *cursor + 1;
        // An exchange, so that reads under an earlier hold stay published (Q2).
        seat.hold().swap(mark, SeqCst); // Q3
        fence_after_locked();
        if words.mark(slot).load(Acquire) == mark {
            return Some(slot);
        }
        seat.hold().store(0, Release); // Q2
        *cursor += 1;
    }
    None
}

/// Consumer: as [`take`] without holding anything: true when there is an item now.
pub fn seek(words: &impl Words, cursor: &mut u64, is_mine: impl Fn(usize) -> bool) -> bool {
    let head = words.head().load(Acquire); // Q1
    seek_below(words, head, cursor, &is_mine).is_some()
}

fn seek_below(
    words: &impl Words,
    head: u64,
    cursor: &mut u64,
    is_mine: &impl Fn(usize) -> bool,
) -> Option<usize> {
    let slots = words.slots() as u64;
    *cursor = head.saturating_sub(slots).max(*cursor);
    while *cursor < head {
        let slot = (*cursor % slots) as usize;
        if words.mark(slot).load(Acquire) == *cursor + 1 && is_mine(slot) {
            return Some(slot);
        }
        *cursor += 1;
    }
    None
}

/// Consumer: lets go of what it holds, if anything, and says that nothing below `cursor` is
/// wanted. A full fence, as in [`commit`].
pub fn release(seat: &impl Seat, cursor: u64) {
    // In this order: a producer that sees the cursor does not find the item held any more.
    seat.hold().store(0, Release); // Q2
    seat.cursor().swap(cursor, SeqCst); // Q2
    fence_after_locked();
}

fn is_held<'a, S: Seat + 'a>(seats: impl IntoIterator<Item = &'a S>, mark: u64) -> bool {
    mark != 0 && seats.into_iter().any(|seat| seat.hold().load(Acquire) == mark)
    // Q2, Q3
}

#[cfg(all(test, loom))]
mod models;
