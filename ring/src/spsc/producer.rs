//! The single producer's end: reserve, fill, commit.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use heliostat_base::event::Event;

use super::Refresh;
use crate::doorbell::{self, Patience};
use crate::error::{Corrupt, ReserveError, RingError, Side, WaitError};
use crate::layout::HEADER_BYTES;
use crate::memory::{Memory, RingMemory, Word};
use crate::position::{self, Geometry, Position, RawPosition};
use crate::probe::Probe;
use crate::sync::Ordering;

/// The only producer of a ring. Not `Clone` and not `Sync`; `Send`.
pub struct SpscProducer<M: Memory = RingMemory> {
    memory: Arc<M>,
    geometry: Geometry,
    head: Position,
    /// Our copy of the consumer's tail; at most the true one.
    tail: Position,
    refresh: Refresh,
    consumer_event: Option<Event>,
    single: PhantomData<Cell<()>>,
}

impl<M: Memory> SpscProducer<M> {
    /// Claims the producing end and goes on where its last holder stopped.
    pub fn new(memory: Arc<M>, refresh: Refresh) -> Result<SpscProducer<M>, RingError> {
        let (head, tail) = claim_producer(&*memory)?;
        let geometry = memory.geometry();
        let (consumer_event, single) = (None, PhantomData);
        Ok(SpscProducer { memory, geometry, head, tail, refresh, consumer_event, single })
    }

    /// Rings this event for a consumer that sleeps in poll.
    pub fn set_consumer_event(&mut self, event: Event) {
        self.consumer_event = Some(event);
    }

    /// Reserves an element of `len` payload bytes. Dropping the slot gives the space back.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<Slot<'_, M>, ReserveError> {
        let span = self.geometry.span(len)?;
        let fits = self.geometry.fits(self.head, self.tail, span);
        if !fits || self.refresh == Refresh::Eager {
            self.refresh_tail()?;
            if !self.geometry.fits(self.head, self.tail, span) {
                return Err(ReserveError::Full);
            }
        }
        zero_behind(&*self.memory, self.head.after(span));
        let start = self.geometry.index(self.head) + HEADER_BYTES as usize;
        Ok(Slot { start, len, producer: self })
    }

    /// Reserves, copies and commits in one step, and rings the bell.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ReserveError> {
        let mut slot = self.reserve(bytes.len())?;
        slot.copy_in(0, bytes);
        slot.commit();
        Ok(())
    }

    /// Rings the consumer's bell if it sleeps: once after a batch of [`Slot::commit_quiet`].
    #[inline]
    pub fn ring(&self) {
        doorbell::ring(self.memory.bell(Side::Consumer), self.consumer_event.as_ref());
    }

    /// Waits until an element of `len` bytes fits. A corrupt ring ends the wait as well; the next
    /// `reserve` says so.
    pub fn wait_space(
        &mut self,
        len: usize,
        patience: &Patience,
        probe: &dyn Probe,
    ) -> Result<(), WaitError> {
        let bell = self.memory.bell(Side::Producer);
        let (memory, head, tail) = (&*self.memory, self.head, &mut self.tail);
        doorbell::wait(bell, patience, probe, || has_space(memory, head, tail, len))
    }

    /// Announces a sleep in poll; false if an element of `len` bytes fits already.
    pub fn arm(&mut self, len: usize) -> bool {
        let (memory, head, tail) = (&*self.memory, self.head, &mut self.tail);
        doorbell::arm(memory.bell(Side::Producer), || has_space(memory, head, tail, len))
    }

    /// Takes back [`SpscProducer::arm`].
    pub fn disarm(&self) {
        doorbell::disarm(self.memory.bell(Side::Producer));
    }

    /// Bytes between the newest element and the tail as we know it; refreshes our copy.
    pub fn used_bytes(&mut self) -> Result<u64, Corrupt> {
        self.refresh_tail()?;
        Ok(self.head.since(self.tail))
    }

    /// The size of the ring.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[inline]
    fn refresh_tail(&mut self) -> Result<(), Corrupt> {
        refresh_tail(&*self.memory, self.head, &mut self.tail)
    }

    #[inline]
    fn publish(&mut self, len: usize) {
        let (at, geometry) = (self.head, self.geometry);
        let next = at.after(position::span_of(len));
        // [publish] Payload and the zero word are visible to whoever sees the header.
        let header = self.memory.header(geometry.index(at));
        header.store(position::ready(at, len), Ordering::Release);
        self.head = next;
        // Only for those who come later (see `claim_producer`) and for observers.
        self.memory.word(Word::Head).store(next.value(), Ordering::Release);
        // The next element's zero word may lie on a line that the consumer still has from the last
        // lap. Stores leave in order: its way would hold up the element before it.
        self.memory.prefetch_to_write(geometry.index(next) + 64);
    }
}

impl<M: Memory> Drop for SpscProducer<M> {
    fn drop(&mut self) {
        self.memory.unclaim(Side::Producer);
    }
}

/// Claims the producing end and reads both positions as foreign values.
pub(crate) fn claim_producer<M: Memory>(memory: &M) -> Result<(Position, Position), RingError> {
    if !memory.claim(Side::Producer) {
        return Err(RingError::Claimed(Side::Producer));
    }
    let tail = Position::new(memory.word(Word::Tail).load(Ordering::Acquire) & !(HEADER_BYTES - 1));
    let raw = RawPosition(memory.word(Word::Head).load(Ordering::Acquire));
    match memory.geometry().check_head(raw, tail) {
        Ok(head) => Ok((head, tail)),
        Err(corrupt) => {
            memory.unclaim(Side::Producer);
            Err(corrupt.into())
        }
    }
}

/// Zeroes the header word behind an element that is going to be committed, because the consumer
/// may look there as soon as it sees the element.
///
/// Done when reserving, and not when committing: stores leave the core in order, and between the
/// payload and the header word there must be none that waits for another line. A consumer that
/// polls would take the header's line away meanwhile, and the message would cost one more trip.
#[inline(always)]
pub(crate) fn zero_behind<M: Memory>(memory: &M, next: Position) {
    memory.header(memory.geometry().index(next)).store(0, Ordering::Relaxed);
}

/// Looks at the consumer's tail and brings our copy of it up to date.
#[inline]
pub(crate) fn refresh_tail<M: Memory>(
    memory: &M,
    head: Position,
    tail: &mut Position,
) -> Result<(), Corrupt> {
    // [reclaim] What the consumer has read, it has read before this load returns.
    let raw = RawPosition(memory.word(Word::Tail).load(Ordering::Acquire));
    *tail = memory.geometry().check_tail(raw, *tail, head)?;
    Ok(())
}

/// Whether waiting for `len` bytes is over: they fit, never will, or the consumer is corrupt.
pub(crate) fn has_space<M: Memory>(
    memory: &M,
    head: Position,
    tail: &mut Position,
    len: usize,
) -> bool {
    let geometry = memory.geometry();
    match geometry.span(len) {
        Err(_) => true,
        Ok(span) => refresh_tail(memory, head, tail).is_err() || geometry.fits(head, *tail, span),
    }
}

/// A reserved element: invisible to the consumer until it is committed.
pub struct Slot<'p, M: Memory = RingMemory> {
    producer: &'p mut SpscProducer<M>,
    start: usize,
    len: usize,
}

impl<M: Memory> Slot<'_, M> {
    /// Payload bytes reserved.
    #[allow(clippy::len_without_is_empty)] // an element of no bytes is still an element
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies bytes to `at` of the payload. Panics if they do not lie inside the reservation.
    #[inline]
    pub fn copy_in(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at, "beyond the reservation");
        self.producer.memory.fill(self.start + at, bytes);
    }

    /// Address of the payload, for engines and system calls; valid for `len()` bytes until commit.
    pub fn as_ptr(&self) -> *mut u8 {
        self.producer.memory.data().wrapping_add(self.start)
    }

    /// Publishes the element and rings the bell of a sleeping consumer.
    #[inline]
    pub fn commit(self) {
        self.producer.publish(self.len);
        self.producer.ring();
    }

    /// Publishes only the first `len` bytes (no more than reserved), and rings.
    pub fn commit_prefix(self, len: usize) {
        let len = len.min(self.len);
        let next = self.producer.head.after(position::span_of(len));
        zero_behind(&*self.producer.memory, next);
        self.producer.publish(len);
        self.producer.ring();
    }

    /// Publishes the element without looking at the bell; see [`SpscProducer::ring`].
    #[inline]
    pub fn commit_quiet(self) {
        self.producer.publish(self.len);
    }
}
