//! Pins: how consumers keep versions of a snapshot region alive, and how the producer finds out
//! which ones it may take apart.
//!
//! A version is described in one of a few *places* of a table: a number in a word, and plain data
//! beside it. The producer alone writes the table. A consumer writes the number it reads into a
//! word of its own page, which the producer alone looks at. No side ever waits for the other: a
//! pin needs one locked instruction and one load, and retiring one look at every page.
//!
//! The data of a place, and whatever memory it refers to, may be rewritten only between
//! [`try_retire`] and [`publish`]: what says where the bytes lie is pinned like the bytes.
//!
//! Orders (labels stand beside each release and its acquire; `models` shows them under loom):
//! - `V1` data before NUMBER, NUMBER before LATEST: who finds a number finds what it describes;
//! - `V2` reading done before PIN is cleared: the consumer publishes, the producer acquires before
//!   it writes again;
//! - `V3` a newer LATEST before an older NUMBER goes: who misses a version that was the newest
//!   finds a newer one, so every vain attempt at the newest costs the producer a version;
//! - `D3` PIN set, full fence, look at NUMBER; against NUMBER cleared, full fence, look at the
//!   pins. One of both sees the other (Dekker), so no pinned version is taken apart.
//!
//! Every word of the other side is foreign. Numbers are only compared, never used as an index: a
//! consumer that lies keeps versions alive or loses its own, a producer that lies shows wrong data.

use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{fence_after_locked, full_fence, pause, AtomicU64};

/// Most versions that may be published during one [`pin_latest`] before it gives up. A producer
/// that publishes so fast retires what nobody had the time to read.
const ATTEMPTS: usize = 64;

/// The words of a table: written by the producer, foreign to consumers.
pub trait Words {
    /// Number of the newest version, 0 for none.
    fn latest(&self) -> &AtomicU64;
    /// Number of the version described in `place`, 0 while nobody may pin it.
    fn number(&self, place: usize) -> &AtomicU64;
    /// Places there are; a number of our own or a checked one.
    fn places(&self) -> usize;
}

/// One consumer's page of pins: written by the consumer, foreign to the producer.
#[allow(clippy::len_without_is_empty)] // A page has its size by the layout and is never empty.
pub trait Pins {
    /// Number of the version pinned in slot `at`, 0 for none.
    fn pin(&self, at: usize) -> &AtomicU64;
    /// Slots there are; a number of our own or a checked one.
    fn len(&self) -> usize;
}

/// A pin that holds: its slot in the page, the version's place in the table, the version's number.
pub type Pinned = (usize, usize, u64);

/// Why nothing was pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PinError {
    /// No such version: not published, or retired. From [`pin_latest`]: none was published yet.
    Gone,
    /// The producer moved on during every attempt.
    Busy,
    /// Every slot of the page holds a pin.
    NoRoom,
}

impl std::fmt::Display for PinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gone => "no such version, or no longer",
            Self::Busy => "versions are retired faster than they can be pinned",
            Self::NoRoom => "every slot of the page holds a pin",
        })
    }
}
impl std::error::Error for PinError {}

/// Producer: makes the data in a retired or never used `place` known as version `number`, and as
/// the newest one.
///
/// Numbers grow and never come back: a number that stood for two versions could be pinned as the
/// one and read as the other.
pub fn publish(words: &impl Words, place: usize, number: u64) {
    debug_assert!(number > words.latest().load(Relaxed));
    words.number(place).store(number, Release); // V1
    words.latest().store(number, Release); // V1, V3
}

/// Producer: true when the version in `place` is gone, so that the place may be written; false
/// when it stays, because a consumer holds it or it is the newest one.
///
/// `pages` are those of all consumers that know the table: a page has to be among them before its
/// consumer is told of the table, and may be left out once the consumer is dead. One thread of
/// the producer at a time.
pub fn try_retire<'a, P: Pins + 'a>(
    words: &impl Words,
    place: usize,
    pages: impl IntoIterator<Item = &'a P> + Clone,
) -> bool {
    let word = words.number(place);
    let number = word.load(Relaxed);
    if number == 0 {
        return true;
    }
    // A held version is left as it is: others that want it too never meet the short zero below.
    let is_latest = words.latest().load(Relaxed) == number;
    if is_latest || is_pinned(pages.clone(), number) {
        return false;
    }
    word.store(0, Release); // D3, V3
    full_fence();
    let is_free = !is_pinned(pages, number);
    if !is_free {
        // A consumer may find the version by this store alone. The fence orders it as well, but
        // what a store publishes should not hang on a fence that is there for something else.
        word.store(number, Release); // V1
    }
    is_free
}

/// Producer: the numbers in all slots of `pages`, zeros left out; foreign, so any number may come,
/// and more than once. For telling who holds what: only [`try_retire`] says what is free.
pub fn pinned_numbers<'a, P: Pins + 'a, I: IntoIterator<Item = &'a P>>(
    pages: I,
) -> impl Iterator<Item = u64> + use<'a, P, I> {
    let slots = pages.into_iter().flat_map(|page| (0..page.len()).map(move |at| page.pin(at)));
    slots.map(|pin| pin.load(Acquire)).filter(|number| *number != 0) // V2
}

/// Consumer: pins the newest version.
///
/// The version was the newest one at some moment of the call.
pub fn pin_latest(words: &impl Words, pins: &impl Pins) -> Result<Pinned, PinError> {
    pin_latest_within(words, pins, ATTEMPTS)
}

/// [`pin_latest`] that gives up after `attempts`, each of which costs the producer a version (V3).
fn pin_latest_within(
    words: &impl Words,
    pins: &impl Pins,
    attempts: usize,
) -> Result<Pinned, PinError> {
    for _ in 0..attempts {
        let number = words.latest().load(Acquire); // V1
        match pin_number(words, pins, number) {
            Err(PinError::Gone) if number != 0 => pause(),
            answer => return answer,
        }
    }
    Err(PinError::Busy)
}

/// Consumer: pins version `number`; its data may then be read until [`unpin`].
///
/// `Gone` is final, except for a version that is not the newest and was pinned elsewhere a moment
/// ago: the producer may just have found that pin and be about to let the version stay.
pub fn pin_number(words: &impl Words, pins: &impl Pins, number: u64) -> Result<Pinned, PinError> {
    // Zero stands in every free place and is no version, whatever LATEST says.
    if number == 0 {
        return Err(PinError::Gone);
    }
    let holds = |place: &usize| words.number(*place).load(Acquire) == number; // V1, V3
    let place = (0..words.places()).find(holds).ok_or(PinError::Gone)?;
    let slot = claim(pins, number)?;
    if holds(&place) {
        return Ok((slot, place, number));
    }
    unpin(pins, slot);
    Err(PinError::Gone)
}

/// Consumer: gives a pin back, after the last read of its version's data.
pub fn unpin(pins: &impl Pins, slot: usize) {
    // Also behind a vain attempt: a weaker store would cut the producer off from the reads under
    // an earlier pin of this slot.
    pins.pin(slot).store(0, Release); // V2
}

/// Says in a free slot that `number` is pinned, with a full fence after it (D3).
///
/// An exchange, so that the threads of a consumer share a page without a lock, and so that the
/// reads under an earlier pin of the slot stay published (V2).
fn claim(pins: &impl Pins, number: u64) -> Result<usize, PinError> {
    let take = |slot: &usize| {
        let pin = pins.pin(*slot);
        let is_free = pin.load(Relaxed) == 0;
        is_free && pin.compare_exchange(0, number, SeqCst, Relaxed).is_ok() // D3
    };
    let slot = (0..pins.len()).find(take).ok_or(PinError::NoRoom)?;
    fence_after_locked();
    Ok(slot)
}

/// True when a slot of `pages` holds `number`.
fn is_pinned<'a, P: Pins + 'a>(pages: impl IntoIterator<Item = &'a P>, number: u64) -> bool {
    pinned_numbers(pages).any(|pinned| pinned == number)
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
