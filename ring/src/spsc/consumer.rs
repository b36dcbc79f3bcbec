//! The single consumer's end: take, read, release.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use heliostat_base::event::Event;

use super::Refresh;
use crate::doorbell::{self, Patience};
use crate::error::{Corrupt, RingError, Side, TakeError, WaitError};
use crate::layout::HEADER_BYTES;
use crate::memory::{Memory, RingMemory, Word};
use crate::position::{self, Geometry, Header, Position, RawHeader, RawPosition};
use crate::probe::Probe;
use crate::sync::{futex_wait, Ordering};

/// The only consumer of a ring. Not `Clone` and not `Sync`; `Send`.
pub struct SpscConsumer<M: Memory = RingMemory> {
    memory: Arc<M>,
    geometry: Geometry,
    /// Everything before it is released.
    tail: Position,
    /// What of that stands in the tail word.
    published: Position,
    /// What of that a producer knows that sleeps: it was published before a look at its bell.
    told: Position,
    refresh: Refresh,
    producer_event: Option<Event>,
    single: PhantomData<Cell<()>>,
}

impl<M: Memory> SpscConsumer<M> {
    /// Claims the consuming end and goes on behind the last published release.
    pub fn new(memory: Arc<M>, refresh: Refresh) -> Result<SpscConsumer<M>, RingError> {
        let tail = claim_consumer(&*memory)?;
        let geometry = memory.geometry();
        let (published, told, producer_event, single) = (tail, tail, None, PhantomData);
        Ok(SpscConsumer {
            memory,
            geometry,
            tail,
            published,
            told,
            refresh,
            producer_event,
            single,
        })
    }

    /// Rings this event for a producer that sleeps in poll.
    pub fn set_producer_event(&mut self, event: Event) {
        self.producer_event = Some(event);
    }

    /// Takes the oldest element. Dropping it releases it.
    #[inline]
    pub fn take(&mut self) -> Result<Element<'_, M>, TakeError> {
        if self.refresh == Refresh::Eager {
            self.check_head()?;
        }
        match look(&*self.memory, &mut self.tail)? {
            Some(len) => {
                let start = self.geometry.index(self.tail) + HEADER_BYTES as usize;
                Ok(Element { start, len, consumer: self })
            }
            None => {
                self.publish();
                Err(TakeError::Empty)
            }
        }
    }

    /// Takes the oldest element, copies it to the start of `into`, releases it, and says how long
    /// it was. An element longer than `into` is cut.
    #[inline]
    pub fn pop(&mut self, into: &mut [u8]) -> Result<usize, TakeError> {
        let element = self.take()?;
        let len = element.len();
        let kept = len.min(into.len());
        element.copy_out(0, &mut into[..kept]);
        Ok(len)
    }

    /// As [`SpscConsumer::pop`], for who looks at many rings in turn: an empty ring is published
    /// without the bell and the fence before it, which would hold up whatever he does next.
    ///
    /// No producer sleeps past space for that. One that sleeps knows all but an eighth of what is
    /// released (`told`), and an empty ring less an eighth has room for any element. Of several
    /// producers one might see what was released only when another has committed; so they have a
    /// consumer that calls `pop`.
    #[inline]
    pub fn poll(&mut self, into: &mut [u8]) -> Result<usize, TakeError> {
        let Some(len) = look(&*self.memory, &mut self.tail)? else {
            if self.tail.since(self.told) >= self.geometry.publish_bytes() {
                self.publish();
            } else if self.tail != self.published {
                self.store_tail();
            }
            return Err(TakeError::Empty);
        };
        let kept = len.min(into.len());
        let start = self.geometry.index(self.tail) + HEADER_BYTES as usize;
        self.memory.read(start, &mut into[..kept]);
        self.release(len);
        Ok(len)
    }

    /// Waits until there is an element. A corrupt ring ends the wait as well; the next `take`
    /// says so.
    pub fn wait(&mut self, patience: &Patience, probe: &dyn Probe) -> Result<(), WaitError> {
        self.wait_or(patience, probe, || false)
    }

    /// As [`SpscConsumer::wait`], or until something else holds, after which the producer rings as
    /// it does after an element.
    pub fn wait_or(
        &mut self,
        patience: &Patience,
        probe: &dyn Probe,
        other: impl Fn() -> bool,
    ) -> Result<(), WaitError> {
        self.publish();
        let (memory, tail) = (&*self.memory, &mut self.tail);
        doorbell::wait(memory.bell(Side::Consumer), patience, probe, || {
            // The bytes of a short element end on the next line: fetch it beside the header's.
            memory.prefetch(memory.geometry().index(*tail) + 64);
            !matches!(look(memory, tail), Ok(None)) || other()
        })
    }

    /// Announces a sleep in poll; false if there is an element already.
    pub fn arm(&mut self) -> bool {
        self.publish();
        let (memory, tail) = (&*self.memory, &mut self.tail);
        doorbell::arm(memory.bell(Side::Consumer), || !matches!(look(memory, tail), Ok(None)))
    }

    /// Announces a sleep on the bell's word, by other means than [`SpscConsumer::wait`]: the
    /// value it holds until somebody rings. `None` if there is an element already.
    pub fn arm_word(&mut self) -> Option<u32> {
        self.arm_word_or(|| false)
    }

    /// As [`SpscConsumer::arm_word`], and `None` also if something else holds already, after which
    /// the producer rings as it does after an element.
    pub fn arm_word_or(&mut self, other: impl Fn() -> bool) -> Option<u32> {
        self.publish();
        let (memory, tail) = (&*self.memory, &mut self.tail);
        doorbell::arm_word(memory.bell(Side::Consumer), || {
            !matches!(look(memory, tail), Ok(None)) || other()
        })
    }

    /// As [`SpscConsumer::arm_word`], for one that has no room for the elements that are there: they
    /// do not count, and `None` only if something else holds already.
    pub fn arm_word_unless(&mut self, other: impl Fn() -> bool) -> Option<u32> {
        self.publish();
        doorbell::arm_word(self.memory.bell(Side::Consumer), other)
    }

    /// Announces a sleep that another thread takes, which has nothing of this end but that; `None` if
    /// there is an element already.
    pub fn announce(&mut self) -> Option<Sleep<M>> {
        let value = self.arm_word()?;
        Some(Sleep { memory: self.memory.clone(), value })
    }

    /// Ends announced sleeps: what they wait for was taken here. One that has yet to begin does not.
    pub fn end_sleeps(&self) {
        doorbell::ring(self.memory.bell(Side::Consumer), None);
    }

    /// Takes back [`SpscConsumer::arm`] and [`SpscConsumer::arm_word`].
    pub fn disarm(&self) {
        doorbell::disarm(self.memory.bell(Side::Consumer));
    }

    /// The size of the ring.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What [`Refresh::Eager`] pays for: one more foreign line on every take.
    fn check_head(&self) -> Result<(), Corrupt> {
        let raw = RawPosition(self.memory.word(Word::Head).load(Ordering::Acquire));
        self.geometry.check_head(raw, self.published).map(|_| ())
    }

    #[inline]
    fn release(&mut self, len: usize) {
        self.tail = self.tail.after(position::span_of(len));
        let waiting = self.tail.since(self.told);
        if waiting >= self.geometry.publish_bytes() || self.refresh == Refresh::Eager {
            self.publish();
        }
    }

    #[inline]
    fn store_tail(&mut self) {
        // [reclaim] All our reads of the released bytes come before.
        self.memory.word(Word::Tail).store(self.tail.value(), Ordering::Release);
        self.published = self.tail;
    }

    /// Tells the producer what is released, and wakes it if it sleeps.
    #[inline]
    fn publish(&mut self) {
        if self.tail != self.told {
            self.store_tail();
            self.told = self.tail;
            doorbell::ring(self.memory.bell(Side::Producer), self.producer_event.as_ref());
        }
    }
}

impl<M: Memory> Drop for SpscConsumer<M> {
    fn drop(&mut self) {
        self.publish();
        self.memory.unclaim(Side::Consumer);
    }
}

/// A sleep on a consumer's bell that was announced, for a thread that does not have the consumer.
pub struct Sleep<M: Memory = RingMemory> {
    memory: Arc<M>,
    value: u32,
}

impl<M: Memory> Sleep<M> {
    /// Sleeps until the bell is rung, at once where it was since the announcement; `limit` at most. It
    /// may end early.
    pub fn sleep(&self, limit: Duration) {
        futex_wait(self.memory.bell(Side::Consumer), self.value, Some(limit));
    }
}

/// Length of the oldest element, if it is committed. Skips what was given up, but no more than
/// one lap of it, so that a producer that does nothing else cannot keep us here.
#[inline]
pub(crate) fn look<M: Memory>(memory: &M, tail: &mut Position) -> Result<Option<usize>, Corrupt> {
    let (start, geometry) = (*tail, memory.geometry());
    while tail.since(start) < geometry.capacity() {
        // [publish]
        let word = memory.header(geometry.index(*tail)).load(Ordering::Acquire);
        match geometry.check_header(RawHeader(word), *tail)? {
            Header::Ready(len) => return Ok(Some(len)),
            Header::Pending => return Ok(None),
            Header::Skipped(len) => *tail = tail.after(position::span_of(len)),
        }
    }
    Ok(None)
}

/// Claims the consuming end and reads its position as a foreign value.
pub(crate) fn claim_consumer<M: Memory>(memory: &M) -> Result<Position, RingError> {
    if !memory.claim(Side::Consumer) {
        return Err(RingError::Claimed(Side::Consumer));
    }
    // A tail in the middle of a word is rounded down; whatever it is, the headers are checked.
    let raw = memory.word(Word::Tail).load(Ordering::Acquire);
    Ok(Position::new(raw & !(HEADER_BYTES - 1)))
}

/// A taken element: its memory stays the consumer's until this value is dropped.
pub struct Element<'c, M: Memory = RingMemory> {
    consumer: &'c mut SpscConsumer<M>,
    start: usize,
    len: usize,
}

impl<M: Memory> Element<'_, M> {
    /// Payload bytes.
    #[allow(clippy::len_without_is_empty)] // an element of no bytes is still an element
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies payload bytes from `at`. Panics if they do not lie inside the element.
    #[inline]
    pub fn copy_out(&self, at: usize, into: &mut [u8]) {
        assert!(at <= self.len && into.len() <= self.len - at, "beyond the element");
        self.consumer.memory.read(self.start + at, into);
    }

    /// Address of the payload, for engines and system calls; valid for `len()` bytes until
    /// release. The producer can still write the bytes: copy first, then check.
    pub fn as_ptr(&self) -> *const u8 {
        self.consumer.memory.data().wrapping_add(self.start)
    }

    /// Releases the element now.
    pub fn release(self) {}
}

impl<M: Memory> Drop for Element<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.consumer.release(self.len);
    }
}
